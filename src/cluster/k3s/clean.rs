//! Removes what dead processes have left in the container engine.
//!
//! # Guarantees
//! Nothing of a process that is alive is touched, and nothing that does not carry our labels. A kept node stays unless
//! everything is asked for. Cleaning twice finds nothing the second time.

use super::{
    K3sError,
    engine::Engine,
    kept::{self, Slot},
};
use crate::cluster::owner::{Liveness, Owner};

/// What was done, one line for each thing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    pub removed: Vec<String>,
    /// What was found and left, with the reason.
    pub left: Vec<String>,
}

/// What to do with something that carries our labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Remove,
    /// Its process is alive: not worth a word.
    InUse,
    Kept,
    Elsewhere,
}

/// Whether a node was ever started from this cache; where none was, there is no engine to be asked.
#[must_use]
pub fn may_be_left() -> bool {
    let entries = std::fs::read_dir(kept::directory()).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(kept::PREFIX))
}

/// Removes containers and volumes whose process is dead; with `all`, also kept ones and those of other machines.
///
/// # Errors
/// When the engine does not answer, or does not remove one.
pub async fn clean(all: bool) -> Result<Cleaned, K3sError> {
    let engine = Engine::connect().await?;
    let mut cleaned = Cleaned::default();
    for container in engine.containers().await? {
        let slot = Slot::claim(&kept::directory(), &container.name)?;
        let is_kept = slot.as_ref().is_some_and(Slot::is_kept);
        // The name of a kept node that another process uses now is held by that process.
        let fate = if slot.is_none() { Fate::InUse } else { fate(Owner::of(&container.labels), is_kept, all) };
        match fate {
            Fate::Remove => {
                engine.remove(&container.name).await?;
                if let Some(slot) = &slot {
                    slot.forget();
                }
                cleaned.removed.push(format!("container {}", container.name));
            }
            Fate::InUse => {}
            Fate::Kept => cleaned.left.push(format!("container {} is kept; --all removes it", container.name)),
            Fate::Elsewhere => {
                cleaned.left.push(format!("container {} was started elsewhere; --all removes it", container.name))
            }
        }
    }
    // Those of the containers are gone with them; what is left had its container taken away by hand.
    let used: Vec<Owner> = engine.containers().await?.iter().filter_map(|left| Owner::of(&left.labels)).collect();
    for (name, labels) in engine.volumes().await? {
        let owner = Owner::of(&labels);
        if owner.as_ref().is_some_and(|owner| !used.contains(owner)) && fate(owner, false, all) == Fate::Remove {
            engine.remove_volume(&name).await?;
            cleaned.removed.push(format!("volume {name}"));
        }
    }
    Ok(cleaned)
}

fn fate(owner: Option<Owner>, is_kept: bool, all: bool) -> Fate {
    match owner.as_ref().map(Owner::liveness) {
        Some(Liveness::Alive) => Fate::InUse,
        _ if all => Fate::Remove,
        Some(Liveness::Elsewhere) | None => Fate::Elsewhere,
        Some(Liveness::Dead) if is_kept => Fate::Kept,
        Some(Liveness::Dead) => Fate::Remove,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead() -> Owner {
        let mut labels = Owner::me().labels();
        labels.insert("dev.reconverge.owner-start".into(), "0".into());
        Owner::of(&labels).unwrap()
    }

    fn elsewhere() -> Owner {
        let mut labels = Owner::me().labels();
        labels.insert("dev.reconverge.owner-host".into(), "another".into());
        Owner::of(&labels).unwrap()
    }

    #[test]
    fn nothing_of_a_living_process_is_touched() {
        for all in [false, true] {
            assert_eq!(fate(Some(Owner::me()), false, all), Fate::InUse);
            assert_eq!(fate(Some(Owner::me()), true, all), Fate::InUse);
        }
    }

    #[test]
    fn what_a_dead_process_left_goes_unless_it_was_kept() {
        assert_eq!(fate(Some(dead()), false, false), Fate::Remove);
        assert_eq!(fate(Some(dead()), true, false), Fate::Kept);
        assert_eq!(fate(Some(dead()), true, true), Fate::Remove);
    }

    #[test]
    fn what_cannot_be_judged_stays_unless_everything_is_asked_for() {
        assert_eq!(fate(Some(elsewhere()), false, false), Fate::Elsewhere);
        assert_eq!(fate(None, false, false), Fate::Elsewhere);
        assert_eq!(fate(Some(elsewhere()), false, true), Fate::Remove);
    }
}
