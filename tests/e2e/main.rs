//! Every scenario as a named test, and the program as its users run it.
//!
//! What cannot run here is shown as ignored, with the reason before its name. `RECONVERGE_TIERS=registry` adds the
//! scenarios that install real operators from package registries, `RECONVERGE_TIERS=envtest` the others on a real
//! kube-apiserver, `RECONVERGE_TIERS=k3s` what only a node with real pods shows; `RECONVERGE_REQUIRE_ALL=1` makes a skip a failure.

mod envtest;
mod k3s;
mod program;
mod scenarios;

#[path = "../operators/expected.rs"]
mod expected;

use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = scenarios::trials();
    trials.extend(program::trials());
    trials.extend(envtest::trials());
    trials.extend(k3s::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    envtest::close();
    conclusion.exit();
}
