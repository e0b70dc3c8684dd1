//! Where and how things are printed.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::OnceLock,
};

use clap::CommandFactory as _;
use tracing_subscriber::EnvFilter;

use super::{
    arguments::{Arguments, Global, When},
    exit::Exit,
};

static COLOUR: OnceLock<(bool, bool)> = OnceLock::new();

/// Decides about colours once, and sends log lines to stderr.
pub fn set_up(global: &Global) {
    let wanted = |terminal: bool| match global.color {
        When::Always => true,
        When::Never => false,
        When::Auto if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) => false,
        When::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => true,
        When::Auto => terminal,
    };
    let _ = COLOUR.set((wanted(std::io::stdout().is_terminal()), wanted(std::io::stderr().is_terminal())));
    let level = match (global.quiet, global.verbose) {
        // Requests that fail and are repeated are no news, and the client tells of each.
        (true, _) => "error,kube_client=off",
        (false, 0) => "warn,kube_client=off",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(stderr_colour()).init();
    if !stderr_colour() {
        let _ = miette::set_hook(Box::new(|_| {
            Box::new(miette::MietteHandlerOpts::new().color(false).unicode(false).build())
        }));
    }
}

/// Whether stdout takes colours.
pub fn stdout_colour() -> bool {
    COLOUR.get().is_some_and(|(stdout, _)| *stdout)
}

/// Whether stderr takes colours.
pub fn stderr_colour() -> bool {
    COLOUR.get().is_some_and(|(_, stderr)| *stderr)
}

/// The result, on stdout. A closed pipe (`| head`) is no error.
pub fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// A line about what went wrong, on stderr.
pub fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "error: {text}");
}

/// A line about what is being done, on stderr.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A scenario file's mistakes, with the place in the file.
pub fn diagnostic(report: impl miette::Diagnostic + Send + Sync + 'static) {
    let _ = writeln!(std::io::stderr().lock(), "{:?}", miette::Report::new(report));
}

/// The completion script.
pub fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "reconverge", &mut script);
    result(&String::from_utf8_lossy(&script));
    Exit::Pass
}
