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

fn main() {
    let arguments = Arguments::from_args();
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
