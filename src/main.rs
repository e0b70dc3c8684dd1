//! The `reconverge` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    reconverge::cli::main()
}
