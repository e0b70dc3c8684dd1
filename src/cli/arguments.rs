//! What the command line takes; the doc comments are what `--help` prints.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, builder::BoolishValueParser};

use crate::seed::Seed;

const EXIT_CODES: &str = "\
Exit codes:
  0    pass
  1    fail: at least one finding
  2    inconclusive: nothing can be said (a fault never fired, an unstable reference, ...)
  3    environment: what the harness needs is missing or broke
  4    nothing selected
  64   a wrong argument or scenario file
  130  interrupted

Every option can be set by an environment variable too, shown beside it.";

/// Proves that a Kubernetes operator converges: runs it on a throw-away cluster, applies a workload, disturbs it,
/// and compares what is left with fault-free runs.
#[derive(Debug, Parser)]
#[command(name = "reconverge", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Colours on the terminal.
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, env = "RECONVERGE_COLOR")]
    pub color: When,
    /// How progress is shown on stderr.
    #[arg(long, global = true, value_enum, default_value_t = Progress::Auto, env = "RECONVERGE_PROGRESS")]
    pub progress: Progress,
    /// More about what is being done (-v, -vv); RUST_LOG is honoured, too.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Only the result, no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set; everywhere with CLICOLOR_FORCE.
    Auto,
    Always,
    Never,
}

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    Bar,
    Lines,
    None,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenarios and judge the operator.
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Run one finding again: the references and one perturbed run under one seed.
    Replay(Replay),
    /// List the scenarios that `run` would take, with their perturbations.
    List(Paths),
    /// Check scenario files without running them.
    Lint(Paths),
    /// Explain a perturbation, an oracle, a normalisation rule, or `defaults`.
    Explain(Explain),
    /// Print the JSON Schema of scenario files.
    Schema,
    /// Judge a finished run's directory again, without a cluster.
    Analyze(Analyze),
    /// Print a finished run's verdict in another format, or write it as a build of a Prow job.
    Report(Report),
    /// Run the embedded API server alone, for kubectl and for curious people; ends with Ctrl-C.
    Cluster(Cluster),
    /// Remove containers, volumes and processes that a killed invocation has left.
    Clean(Clean),
    /// Look for what each lane needs on this machine, and say what to do about what is missing.
    Doctor(Doctor),
    /// Print a completion script for a shell.
    Completions(Completions),
}

/// Which scenarios.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Scenario files, or directories that are searched for `scenario.yaml`.
    #[arg(default_value = "scenarios")]
    pub paths: Vec<PathBuf>,
    /// Only scenarios whose name matches this regular expression.
    #[arg(long, env = "RECONVERGE_FILTER")]
    pub filter: Option<String>,
    /// Leave out scenarios whose name matches this regular expression.
    #[arg(long, env = "RECONVERGE_EXCLUDE")]
    pub exclude: Option<String>,
    /// Only scenarios with this label.
    #[arg(long, value_name = "KEY=VALUE", env = "RECONVERGE_SELECTOR")]
    pub selector: Option<String>,
}

/// `list` and `lint`.
#[derive(Debug, Clone, Args)]
pub struct Paths {
    #[command(flatten)]
    pub selection: Selection,
    /// `json` for machines.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Options that `run` and `replay` share.
#[derive(Debug, Clone, Args)]
pub struct Running {
    /// The kind of cluster, instead of the scenario's own; with USE_EXISTING_CLUSTER=true, `kubeconfig`.
    #[arg(long, value_enum, env = "RECONVERGE_CLUSTER")]
    pub cluster: Option<LaneArgument>,
    /// The node image of `k3s`; default: the first of `rancher/k3s` and the one that `k3s/build.sh` makes that is here.
    #[arg(long, env = "RECONVERGE_K3S_IMAGE", value_name = "IMAGE")]
    pub k3s_image: Option<String>,
    /// The context of the kubeconfig that `--cluster kubeconfig` uses; default: its current one.
    #[arg(long, env = "RECONVERGE_CONTEXT")]
    pub context: Option<String>,
    /// The cluster of `--cluster kubeconfig` may be disturbed, and emptied between runs.
    #[arg(long, env = "RECONVERGE_I_OWN_THIS_CLUSTER", value_parser = BoolishValueParser::new())]
    pub i_own_this_cluster: bool,
    /// Who runs again what the embedded lane finds, and a sample of what it passes: `auto` takes `envtest` where its
    /// binaries are at hand, for findings alone.
    #[arg(long, value_enum, default_value_t = JudgeArgument::Auto, env = "RECONVERGE_JUDGE")]
    pub judge: JudgeArgument,
    /// Whether clusters that were started for this invocation stay alive at its end.
    #[arg(long, value_enum, default_value_t = Keep::Never, env = "RECONVERGE_KEEP")]
    pub keep: Keep,
    /// Runs at a time; operators marked `exclusive` always run one at a time.
    #[arg(long, default_value_t = 8, env = "RECONVERGE_PARALLEL")]
    pub parallel: usize,
    /// Where the run directory goes.
    #[arg(long, default_value = "target/reconverge/runs", env = "RECONVERGE_RUNS")]
    pub runs_dir: PathBuf,
    /// Also write JUnit to this file; the run directory always holds one. With ARTIFACTS in the environment, as Prow sets
    /// it, one more goes there.
    #[arg(long, env = "RECONVERGE_JUNIT")]
    pub junit: Option<PathBuf>,
    /// Leave out the operators' build commands; what they make is there already.
    #[arg(long, env = "RECONVERGE_NO_BUILD", value_parser = BoolishValueParser::new())]
    pub no_build: bool,
    /// Let an inconclusive verdict exit with 0.
    #[arg(long, env = "RECONVERGE_ALLOW_INCONCLUSIVE", value_parser = BoolishValueParser::new())]
    pub allow_inconclusive: bool,
    /// `json` prints verdict.json on stdout instead of the report.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// The judges by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JudgeArgument {
    Auto,
    Envtest,
    K3s,
    Off,
}

impl Running {
    /// The lane of the command line. `USE_EXISTING_CLUSTER`, which operators' own test suites know, means a cluster
    /// that is there already.
    #[must_use]
    pub fn lane(&self) -> Option<LaneArgument> {
        let existing = std::env::var("USE_EXISTING_CLUSTER").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        self.cluster.or(existing.then_some(LaneArgument::Kubeconfig))
    }
}

/// When clusters outlive their invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    Always,
    OnFailure,
    Never,
}

/// The lanes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LaneArgument {
    Embedded,
    Envtest,
    K3s,
    Kubeconfig,
}

/// `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub running: Running,
    /// The seed; a seed fixes the plan, not how an external process interleaves.
    #[arg(long, default_value_t = Seed(1), env = "RECONVERGE_SEED")]
    pub seed: Seed,
    /// Run every perturbation under this many seeds, counted up from --seed.
    #[arg(long, default_value_t = 1, env = "RECONVERGE_REPEAT", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: u64,
    /// Only these runs, by name (such as `conflict`, `crash-after-write`, or of those only `crash-after-write-3`).
    #[arg(long = "perturbation", value_name = "NAME")]
    pub perturbations: Vec<String>,
    /// Stop at the first failure.
    #[arg(long, env = "RECONVERGE_FAIL_FAST", value_parser = BoolishValueParser::new())]
    pub fail_fast: bool,
    /// Print the plan: runs, seeds and faults; start nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `replay`.
#[derive(Debug, Clone, Args)]
pub struct Replay {
    /// The scenario's file or directory.
    pub path: PathBuf,
    /// The seed of the finding.
    #[arg(long)]
    pub seed: Seed,
    /// The run of the finding, such as `conflict`, `crash-after-write-3` or `reference`.
    #[arg(long)]
    pub run: String,
    #[command(flatten)]
    pub running: Running,
}

/// `explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    /// An id, such as `conflict`, `same-state`, `managed-fields` or `defaults`; without one, all of them are listed.
    pub id: Option<String>,
}

/// `analyze`.
#[derive(Debug, Clone, Args)]
pub struct Analyze {
    /// A run directory, such as `target/reconverge/runs/latest`, or one scenario's folder in it.
    #[arg(default_value = "target/reconverge/runs/latest")]
    pub directory: PathBuf,
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Let an inconclusive verdict exit with 0.
    #[arg(long, env = "RECONVERGE_ALLOW_INCONCLUSIVE", value_parser = BoolishValueParser::new())]
    pub allow_inconclusive: bool,
}

/// `report`.
#[derive(Debug, Clone, Args)]
pub struct Report {
    /// A run directory.
    #[arg(default_value = "target/reconverge/runs/latest")]
    pub directory: PathBuf,
    #[arg(long, value_enum, default_value_t = ReportFormat::Text, env = "RECONVERGE_FORMAT")]
    pub format: ReportFormat,
    /// Write to this file instead of stdout; for `prow`, the directory of the build.
    #[arg(long, value_name = "PATH", required_if_eq("format", "prow"))]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub job: JobArguments,
}

/// The formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// What `run` printed.
    Text,
    /// verdict.json.
    Json,
    Junit,
    /// The step summary of GitHub Actions, in Markdown.
    Github,
    /// A build's directory for Prow and TestGrid, and the configuration of a dashboard.
    Prow,
}

/// Which build of which job `--format prow` writes; Prow sets the environment of all of it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Prow and TestGrid")]
pub struct JobArguments {
    /// The job's name; default: `reconverge`.
    #[arg(long, env = "JOB_NAME")]
    pub job: Option<String>,
    /// The build's id, which must sort after earlier ones; default: when the run began, in digits.
    #[arg(long, env = "BUILD_ID")]
    pub build_id: Option<String>,
    /// The repository of the operator; default: of REPO_OWNER and REPO_NAME.
    #[arg(long, value_name = "ORGANISATION/NAME", env = "RECONVERGE_REPOSITORY")]
    pub repository: Option<String>,
    /// The number of the pull request.
    #[arg(long, value_name = "NUMBER", env = "PULL_NUMBER")]
    pub pull: Option<String>,
    /// The commit of the operator; default: PULL_BASE_SHA.
    #[arg(long, value_name = "COMMIT", env = "PULL_PULL_SHA")]
    pub revision: Option<String>,
    /// The bucket that TestGrid shall read.
    #[arg(long, value_name = "BUCKET", env = "RECONVERGE_TESTGRID_BUCKET")]
    pub testgrid_bucket: Option<String>,
}

/// `cluster`.
#[derive(Debug, Clone, Args)]
pub struct Cluster {
    /// Write the kubeconfig to this file instead of printing it.
    #[arg(long, env = "RECONVERGE_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    #[arg(long, default_value_t = Seed(1), env = "RECONVERGE_SEED")]
    pub seed: Seed,
}

/// `clean`.
#[derive(Debug, Clone, Args)]
pub struct Clean {
    /// Also clusters that were kept with --keep, and what processes of other machines have started.
    #[arg(long)]
    pub all: bool,
}

/// `doctor`.
#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// The lane that shall work; what it lacks exits with 3. Without it, only `embedded` has to.
    #[arg(long, value_enum, env = "RECONVERGE_CLUSTER")]
    pub cluster: Option<LaneArgument>,
    /// The node image of `k3s`.
    #[arg(long, env = "RECONVERGE_K3S_IMAGE", value_name = "IMAGE")]
    pub k3s_image: Option<String>,
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// `completions`.
#[derive(Debug, Clone, Args)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::exit::Exit;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace()).map(|arguments| arguments.command)
    }

    /// clap finds clashing names and impossible defaults only when a command is built.
    #[test]
    fn every_command_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_run_needs_no_arguments() {
        let Command::Run(run) = parse("reconverge run").unwrap() else { panic!("another command") };
        assert_eq!(run.selection.paths, [PathBuf::from("scenarios")]);
        assert_eq!((run.seed, run.repeat, run.running.parallel), (Seed(1), 1, 8));
        assert!(run.perturbations.is_empty() && run.running.cluster.is_none());
        assert!(!run.fail_fast && !run.dry_run && !run.running.allow_inconclusive);
    }

    #[test]
    fn a_run_takes_a_seed_a_lane_and_several_names() {
        let line = "reconverge run a b --seed 7 --repeat 3 --cluster k3s --perturbation conflict --perturbation latency -o json";
        let Command::Run(run) = parse(line).unwrap() else { panic!("another command") };
        assert_eq!(run.selection.paths, ["a", "b"].map(PathBuf::from));
        assert_eq!((run.seed, run.repeat), (Seed(7), 3));
        assert_eq!((run.running.cluster, run.running.output), (Some(LaneArgument::K3s), Format::Json));
        assert_eq!(run.perturbations, ["conflict", "latency"]);
    }

    /// The line that reports print must be one that the program takes.
    #[test]
    fn a_replay_needs_its_seed_and_its_run() {
        let line = "reconverge replay --seed 7 --run crash-after-write-3 scenarios/demo";
        let Command::Replay(replay) = parse(line).unwrap() else { panic!("another command") };
        assert_eq!((replay.seed, replay.run.as_str()), (Seed(7), "crash-after-write-3"));
        assert!(parse("reconverge replay --seed 7 scenarios/demo").is_err());
        assert!(parse("reconverge replay --run conflict scenarios/demo").is_err());
        assert!(parse("reconverge replay --seed 7 --run conflict").is_err());
    }

    /// Several files cannot go to stdout.
    #[test]
    fn a_build_needs_a_directory() {
        let Command::Report(report) = parse("reconverge report").unwrap() else { panic!("another command") };
        assert_eq!((report.format, report.out), (ReportFormat::Text, None));
        assert!(parse("reconverge report --format prow").is_err());
        assert!(parse("reconverge report --format prow --out build runs/1").is_ok());
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in ["reconverge -q --color never lint", "reconverge lint -q --color never"] {
            let arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
            assert!(arguments.global.quiet, "{line}");
            assert_eq!(arguments.global.color, When::Never, "{line}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "reconverge",
            "reconverge run --repeat 0",
            "reconverge run --seed minus-one",
            "reconverge run --cluster kind",
            "reconverge cluster --port 70000",
            "reconverge nonsense",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn help_lists_every_exit_code() {
        let codes: Vec<&str> =
            EXIT_CODES.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
        let all = [
            Exit::Pass,
            Exit::Fail,
            Exit::Inconclusive,
            Exit::Environment,
            Exit::Nothing,
            Exit::Usage,
            Exit::Interrupted,
        ];
        assert_eq!(codes, all.map(|exit| (exit as u8).to_string()));
    }
}
