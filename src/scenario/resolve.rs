//! From scenario files to plans.
//!
//! # Flow
//! [`discover`] finds scenario files; [`load`] reads one with the manifests that it names, and checks it; [`plan`] fixes
//! a seed and one perturbation, and fills in what the file leaves open. Manifests that the operator's build command
//! makes are read by [`prepare`], after it; no other file is read after [`load`].
//!
//! # Guarantees
//! A plan comes only from a checked scenario. The same scenario, seed and context give the same plan.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    check::{KnownIds, check, check_ids},
    duration::Span,
    error::{Problem, ScenarioError},
    fill::Filler,
    format::{Lane, Manifest, OperatorSpec, Perturbation, Scenario},
    manifest::{self, Document, Scopes},
    operator,
    parse::{ScenarioFile, parse},
    placeholder::fill_in,
    plan::{PLAN_VERSION, Plan, PlannedPerturbation},
};
use crate::seed::Seed;

/// The name of a scenario's file in its folder.
pub const FILE_NAME: &str = "scenario.yaml";

/// A scenario that was read and checked, with the manifests that it names.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub scenario: Scenario,
    /// As it was named.
    pub file: PathBuf,
    /// The absolute directory of the file.
    pub dir: PathBuf,
    /// The line of each perturbation, from 1.
    pub lines: Vec<usize>,
    pub(super) text: ScenarioFile,
    pub(super) install: Vec<Value>,
    /// What only a deployment needs, beside `install`.
    pub(super) manifests: Vec<Value>,
    /// Paths with placeholders: the build command makes them.
    deferred: Vec<ManifestPath>,
    /// The objects of each step, in order; nothing for steps that apply none.
    applies: Vec<Vec<Value>>,
}

/// One path of `install`, or of the deployment's `manifests`.
#[derive(Debug, Clone)]
struct ManifestPath {
    place: String,
    path: String,
    of_deployment: bool,
}

impl ManifestPath {
    fn all(operator: &OperatorSpec) -> impl Iterator<Item = Self> {
        let named = |of_deployment, place: &'static str| {
            move |(index, path): (usize, &String)| Self {
                place: format!("spec.operator.{place}[{index}]"),
                path: path.clone(),
                of_deployment,
            }
        };
        let manifests = operator.deployment.iter().flat_map(|deployment| deployment.manifests.iter().enumerate());
        let install = operator.install.iter().enumerate().map(named(false, "install"));
        install.chain(manifests.map(named(true, "deployment.manifests")))
    }
}

impl Loaded {
    /// Checks the ids of oracles and rules, which the stages to the right know.
    ///
    /// # Errors
    /// With every id that does not exist.
    pub fn check_ids(&self, known: &KnownIds<'_>) -> Result<(), ScenarioError> {
        ScenarioError::unless_empty(check_ids(&self.text, known))
    }

    /// Whether every manifest has been read: [`prepare`] was called, or the build command makes none.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.deferred.is_empty()
    }

    /// A mistake at a value of the scenario file, such as `spec.cluster.lane`, for stages that find one later.
    #[must_use]
    pub fn problem(&self, path: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::Invalid { problems: vec![self.text.problem(path, message)] }
    }
}

/// What a plan needs to know of the harness.
#[derive(Debug, Clone)]
pub struct Context {
    /// The directory of the `reconverge` program; `{{target}}`.
    pub target_dir: PathBuf,
    /// Where build commands keep what is slow to make; `{{cache}}`.
    pub cache: PathBuf,
    /// The lane of the command line, which wins over the scenario's.
    pub lane: Option<Lane>,
}

impl Context {
    /// The context of the running program, also where it is a test binary under `deps`.
    ///
    /// # Errors
    /// When the program does not know where it is.
    pub fn of_this_program(lane: Option<Lane>) -> std::io::Result<Self> {
        let program = std::env::current_exe()?;
        let dir = program.parent().unwrap_or(Path::new("."));
        let dir = if dir.ends_with("deps") { dir.parent().unwrap_or(dir) } else { dir };
        Ok(Self { target_dir: dir.to_owned(), cache: cache_dir(), lane })
    }
}

/// `RECONVERGE_CACHE`, else the user's cache folder.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("RECONVERGE_CACHE").unwrap_or_else(|| {
        let user = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        user.unwrap_or_else(std::env::temp_dir).join("reconverge")
    })
}

/// Finds `scenario.yaml` files under folders, and takes files as they are; sorted, each once.
///
/// # Errors
/// When a path cannot be read, or has no scenario at all.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ScenarioError> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        if path.is_dir() {
            descend(path, &mut found)?;
        } else if let Err(source) = fs::metadata(path) {
            return Err(ScenarioError::Read { path: path.clone(), source });
        } else {
            found.push(path.clone());
        }
        if found.len() == before {
            return Err(ScenarioError::NotFound { path: path.clone() });
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn descend(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), ScenarioError> {
    let failed = |source| ScenarioError::Read { path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Links are not followed: a loop would never end.
        let kind = entry.file_type().map_err(failed)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !hidden {
            descend(&entry.path(), found)?;
        } else if kind.is_file() && entry.file_name() == FILE_NAME {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Reads and checks a scenario: a file, or a folder that has a `scenario.yaml`.
///
/// # Errors
/// With every mistake that was found in it and in the manifests that it names.
pub fn load(path: &Path) -> Result<Loaded, ScenarioError> {
    let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
    if path.is_dir() && !file.is_file() {
        return Err(ScenarioError::NotFound { path: path.to_owned() });
    }
    let failed = |source| ScenarioError::Read { path: file.clone(), source };
    let text = fs::read_to_string(&file).map_err(failed)?;
    let absolute = fs::canonicalize(&file).map_err(failed)?;
    let dir = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    let parsed = parse(&text, &file)?;

    let mut problems = check(&parsed);
    let spec = &parsed.scenario.spec;
    let (mut install, mut manifests, mut deferred) = (Vec::new(), Vec::new(), Vec::new());
    for manifest in ManifestPath::all(&spec.operator) {
        if manifest.path.contains("{{") {
            deferred.push(manifest);
            continue;
        }
        let objects = read_manifest(&parsed, &manifest.place, &dir.join(&manifest.path), &mut problems);
        if manifest.of_deployment { manifests.extend(objects) } else { install.extend(objects) }
    }
    let mut applies = Vec::new();
    for (index, step) in spec.workload.iter().enumerate() {
        let place = format!("spec.workload[{index}].apply");
        applies.push(match &step.apply {
            Some(Manifest::File(path)) => read_manifest(&parsed, &place, &dir.join(path), &mut problems),
            Some(Manifest::Object(object)) => vec![Value::Object(object.clone())],
            None => Vec::new(),
        });
    }
    // In the order of the file, those of other files last.
    problems.sort_by_key(|problem| (problem.file != file, problem.line, problem.column));
    ScenarioError::unless_empty(problems)?;

    let lines = (0..spec.perturbations.len()).map(|index| parsed.perturbation_line(index)).collect();
    Ok(Loaded {
        scenario: parsed.scenario.clone(),
        file,
        dir,
        lines,
        text: parsed,
        install,
        manifests,
        deferred,
        applies,
    })
}

/// Reads the manifests that the build command has made.
///
/// # Errors
/// With every mistake in them, also that one is not there.
pub fn prepare(loaded: &Loaded, context: &Context) -> Result<Loaded, ScenarioError> {
    let mut prepared = loaded.clone();
    let mut problems = Vec::new();
    let values = values(loaded, context);
    for ManifestPath { place, path, of_deployment } in std::mem::take(&mut prepared.deferred) {
        match fill_in(&path, &values) {
            Ok(path) => {
                let objects = read_manifest(&loaded.text, &place, &loaded.dir.join(path), &mut problems);
                let of = if of_deployment { &mut prepared.manifests } else { &mut prepared.install };
                of.extend(objects);
            }
            Err(error) => problems.push(loaded.text.problem(&place, error.to_string())),
        }
    }
    ScenarioError::unless_empty(problems)?;
    Ok(prepared)
}

/// What the placeholders stand for.
pub(super) fn values(loaded: &Loaded, context: &Context) -> BTreeMap<&'static str, String> {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    BTreeMap::from([
        ("scenario", loaded.dir.display().to_string()),
        ("target", context.target_dir.display().to_string()),
        ("cache", context.cache.display().to_string()),
        ("namespace", loaded.scenario.spec.namespace.clone()),
        ("profile", profile.to_owned()),
    ])
}

/// The objects of a manifest; what is wrong with it is a problem of the scenario or of the manifest.
fn read_manifest(file: &ScenarioFile, place: &str, path: &Path, problems: &mut Vec<Problem>) -> Vec<Value> {
    match manifest::read(path) {
        Ok(documents) => documents.into_iter().map(|Document { object, .. }| object).collect(),
        Err(ScenarioError::Invalid { problems: more }) => {
            problems.extend(more);
            Vec::new()
        }
        Err(other) => {
            let cause = std::error::Error::source(&other).map(|cause| format!(": {cause}")).unwrap_or_default();
            problems.push(file.problem(place, format!("{other}{cause}")));
            Vec::new()
        }
    }
}

/// The perturbations of a scenario with unique, stable names.
#[must_use]
pub fn perturbations(loaded: &Loaded) -> Vec<PlannedPerturbation> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let entries = loaded.scenario.spec.perturbations.iter().enumerate();
    entries
        .map(|(index, perturbation)| {
            let (base, point) = match perturbation {
                Perturbation::CrashAfterWrite(crash) => {
                    (if crash.before { "crash-before-write" } else { "crash-after-write" }, crash.write)
                }
                other => (other.id(), None),
            };
            let mut name = base.to_owned();
            let count = seen.entry(format!("{base} {point:?}")).or_default();
            *count += 1;
            match (perturbation, *count) {
                (_, 1) => {}
                // A number would read as the ordinal of a write.
                (Perturbation::CrashAfterWrite(_), n) => name = format!("{name}-again{n}"),
                (_, n) => name = format!("{name}-{n}"),
            }
            if let Some(write) = point {
                name = format!("{name}-{write}");
            }
            let line = loaded.lines.get(index).copied().unwrap_or(1);
            PlannedPerturbation { index, name, perturbation: perturbation.clone(), line }
        })
        .collect()
}

/// The name of fault-free runs, followed by their ordinal.
pub const REFERENCE: &str = "reference";

/// Whether a scenario may have runs of that name: `conflict`, `crash-after-write` for all its points, or
/// `crash-after-write-3`, of which only the reference can tell whether there are so many; also `reference`.
#[must_use]
pub fn may_have_run(loaded: &Loaded, name: &str) -> bool {
    let is_ordinal = |text: &str| text.parse::<u64>().is_ok_and(|ordinal| ordinal > 0);
    let numbered = |base: &str| name.strip_prefix(base).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_ordinal);
    let sweeps = |entry: &PlannedPerturbation| expand_crash_points(entry, 0).is_empty();
    name == REFERENCE
        || numbered(REFERENCE)
        || perturbations(loaded).iter().any(|entry| entry.name == name || (sweeps(entry) && numbered(&entry.name)))
}

/// One perturbation for each write of a reference run, for a sweep that names no write; any other as it is.
#[must_use]
pub fn expand_crash_points(perturbation: &PlannedPerturbation, writes: u64) -> Vec<PlannedPerturbation> {
    match &perturbation.perturbation {
        Perturbation::CrashAfterWrite(crash) if crash.write.is_none() => (1..=writes)
            .map(|write| {
                let mut point = crash.clone();
                point.write = Some(write);
                PlannedPerturbation {
                    name: format!("{}-{write}", perturbation.name),
                    perturbation: Perturbation::CrashAfterWrite(point),
                    ..perturbation.clone()
                }
            })
            .collect(),
        _ => vec![perturbation.clone()],
    }
}

/// Real pods come and go in seconds, not in milliseconds: shorter times of a scenario are lengthened to these where it
/// runs with them. The bound of recovery is not: it is the operator's. A kubelet looks after its containers once a
/// second, and until then a pod whose process has died looks as it did.
const SETTLE_PODS: Span = Span::from_millis(1_500);
const DEADLINE_PODS: Span = Span::from_secs(60);

fn at_least(span: Span, lane: Lane, least: Span) -> Span {
    match lane {
        Lane::Embedded | Lane::Envtest => span,
        Lane::K3s | Lane::Kubeconfig => span.max(least),
    }
}

/// Resolves a scenario into what one run does; without a perturbation it is a reference run.
///
/// # Errors
/// When a placeholder has no value, such as an environment variable that is not set.
pub fn plan(
    loaded: &Loaded,
    seed: Seed,
    perturbation: Option<PlannedPerturbation>,
    context: &Context,
) -> Result<Plan, ScenarioError> {
    let spec = &loaded.scenario.spec;
    let manifests = loaded.install.iter().chain(&loaded.manifests);
    let scopes = Scopes::of(manifests.chain(loaded.applies.iter().flatten()));
    let filler = Filler { scopes, namespace: spec.namespace.clone() };
    let workload = spec.workload.iter().zip(&loaded.applies).flat_map(|(step, objects)| filler.step(step, objects));
    let mut probe = spec.probe.clone();
    if let Some(probe) = &mut probe {
        filler.reference(&mut probe.patch.target);
        probe.expect.iter_mut().for_each(|expectation| filler.reference(&mut expectation.object));
    }
    let lane = context.lane.unwrap_or(spec.cluster.lane);
    Ok(Plan {
        version: PLAN_VERSION,
        scenario: loaded.scenario.metadata.name.clone(),
        file: loaded.file.clone(),
        description: spec.description.clone(),
        lane,
        namespace: spec.namespace.clone(),
        seed,
        operator: operator::plan(loaded, lane, context, &filler)?,
        workload: workload.collect(),
        expect: spec.expect.iter().map(|expectation| filler.expectation(expectation)).collect(),
        settle: at_least(spec.settle, lane, SETTLE_PODS),
        deadline: at_least(spec.deadline, lane, DEADLINE_PODS),
        recovery_within: spec.recovery.within,
        probe,
        perturbation,
        normalise: spec.normalise.clone(),
        references: spec.references,
        skip_oracles: spec.skip_oracles.clone(),
    })
}
