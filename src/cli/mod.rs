//! The command line: the only place that prints, and the only one that knows about signals and exit codes.
//!
//! # Guarantees
//! stdout carries the result, stderr progress and errors. Exit codes are those of [`exit`]. Ctrl-C once ends runs
//! in order and writes a partial report; twice aborts.

pub mod exit;
pub mod arguments;
mod analyze;
mod clean;
mod cluster;
mod doctor;
mod explain;
mod interrupt;
mod lanes;
mod lint;
mod list;
mod output;
mod progress;
mod publish;
mod report;
mod run;
mod schema;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};
use exit::Exit;

/// Parses the arguments, runs the command, and turns its end into an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            // `--help` and `--version` are answers, not mistakes.
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Pass.into() };
        }
    };
    output::set_up(&arguments.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(&format!("could not start the asynchronous runtime: {error}"));
            return Exit::Environment.into();
        }
    };
    let exit = runtime.block_on(dispatch(arguments));
    // Nothing is left to wait for; a blocked resolver thread must not hold the program.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    exit.into()
}

async fn dispatch(arguments: Arguments) -> Exit {
    let global = arguments.global;
    match arguments.command {
        Command::Run(command) => run::run(command, &global).await,
        Command::Replay(command) => run::replay(command, &global).await,
        Command::List(command) => list::list(&command),
        Command::Lint(command) => lint::lint(&command),
        Command::Explain(command) => explain::explain(&command),
        Command::Schema => schema::schema(),
        Command::Analyze(command) => analyze::analyze(&command, &global),
        Command::Report(command) => report::report(&command),
        Command::Cluster(command) => cluster::cluster(command).await,
        Command::Clean(command) => clean::clean(&command).await,
        Command::Doctor(command) => doctor::doctor(&command).await,
        Command::Completions(command) => output::completions(command.shell),
    }
}
