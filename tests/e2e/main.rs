//! Every scenario as a named test, and the program as its users run it.
//!
//! What cannot run here is shown as ignored, with the reason before its name. `RECONVERGE_TIERS=registry` adds the
//! scenarios that install real operators from package registries, `envtest` the others with a real kube-apiserver as the
//! judge, `k3s` specimens in pods, `k3s-registry` a published operator in a pod; `RECONVERGE_REQUIRE_ALL=1` makes a
//! skip a failure.

mod envtest;
mod k3s;
mod pods;
mod program;
mod scenarios;
mod table;

#[path = "../operators/expected.rs"]
mod expected;

use libtest_mimic::Arguments;

/// Trials wait for clusters and settle windows most of the time.
const TRIALS_PER_CORE: usize = 2;

fn main() {
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores * TRIALS_PER_CORE);
    let mut trials = scenarios::trials();
    trials.extend(program::trials());
    trials.extend(envtest::trials());
    trials.extend(k3s::trials());
    trials.extend(pods::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    envtest::close();
    pods::close();
    table::print();
    conclusion.exit();
}
