//! Which node image is used.
//!
//! # Flow
//! what the user wants, and the images of the local engine -> [`Choice`]; no I/O.

/// The image of k3s itself that is pulled when no other is at hand; kept at the Kubernetes version of the other lanes.
pub const PINNED: &str = "rancher/k3s:v1.34.1-k3s1";
/// What `k3s/build.sh` makes where there is no registry.
const OWN: &str = "reconverge/node";
const K3S: &str = "rancher/k3s";

/// The image to start, and whether it must be pulled first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Local(String),
    Pull(String),
}

impl Choice {
    #[must_use]
    pub fn image(&self) -> &str {
        match self {
            Self::Local(image) | Self::Pull(image) => image,
        }
    }
}

/// Picks an image: the one that was asked for; else [`PINNED`], another `rancher/k3s` or an image of our own, whichever
/// is here first, of several the newest version; else [`PINNED`] has to be pulled.
#[must_use]
pub fn choose<S: AsRef<str>>(wanted: Option<&str>, local: &[S]) -> Choice {
    let has = |image: &str| local.iter().any(|tag| tag.as_ref() == image);
    if let Some(wanted) = wanted {
        let wanted = if tag_of(wanted).is_some() { wanted.to_owned() } else { format!("{wanted}:latest") };
        // An id or a digest is not in the list of names; the engine itself says whether it has it.
        return if has(&wanted) || wanted.contains('@') { Choice::Local(wanted) } else { Choice::Pull(wanted) };
    }
    if has(PINNED) {
        return Choice::Local(PINNED.into());
    }
    let newest = |repository: &str| {
        let of_it = local.iter().map(AsRef::as_ref).filter(|tag| split(tag).0 == repository);
        of_it.max_by_key(|tag| rank(tag_of(tag).unwrap_or_default())).map(|tag| Choice::Local(tag.to_owned()))
    };
    newest(K3S).or_else(|| newest(OWN)).unwrap_or_else(|| Choice::Pull(PINNED.into()))
}

/// Repository and tag. The port of a registry is not a tag.
#[must_use]
pub fn split(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, "latest"),
    }
}

fn tag_of(image: &str) -> Option<&str> {
    image.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'))
}

/// Versions compare by number. Of the tags of one version, the short one is what was built or pulled last.
fn rank(tag: &str) -> (Vec<u64>, std::cmp::Reverse<usize>) {
    let version = tag.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    (version.split('.').map_while(|part| part.parse().ok()).collect(), std::cmp::Reverse(tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(image: &str) -> Choice {
        Choice::Local(image.into())
    }

    #[test]
    fn what_is_here_wins_and_k3s_itself_before_our_own() {
        let own = "reconverge/node:v1.34.4";
        assert_eq!(choose::<&str>(None, &[]), Choice::Pull(PINNED.into()));
        assert_eq!(choose(None, &["debian:12", own]), local(own));
        assert_eq!(choose(None, &[own, "rancher/k3s:v1.33.1-k3s1"]), local("rancher/k3s:v1.33.1-k3s1"));
        assert_eq!(choose(None, &["rancher/k3s:v1.99.0-k3s1", own, PINNED]), local(PINNED));
        // Another repository with the same beginning.
        assert_eq!(choose(None, &["reconverge/node-test:1"]), Choice::Pull(PINNED.into()));
    }

    #[test]
    fn the_newest_version_wins_and_then_the_tag_that_moves() {
        let tags = ["reconverge/node:v1.9.4", "reconverge/node:v1.34.4-0a1b2c", "reconverge/node:v1.34.4"];
        assert_eq!(choose(None, &tags), local("reconverge/node:v1.34.4"));
        assert_eq!(choose(None, &tags[..2]), local("reconverge/node:v1.34.4-0a1b2c"));
    }

    #[test]
    fn an_image_that_was_asked_for_is_taken_or_pulled() {
        assert_eq!(choose(Some("mine:1"), &["mine:1", PINNED]), local("mine:1"));
        assert_eq!(choose(Some("mine"), &["mine:latest"]), local("mine:latest"));
        assert_eq!(choose(Some("mine:2"), &["mine:1", PINNED]), Choice::Pull("mine:2".into()));
        assert_eq!(choose(Some("mine@sha256:00"), &[PINNED]), local("mine@sha256:00"));
    }

    #[test]
    fn a_port_is_not_a_tag() {
        assert_eq!(split("registry.test:5000/k3s"), ("registry.test:5000/k3s", "latest"));
        assert_eq!(split("registry.test:5000/k3s:v1"), ("registry.test:5000/k3s", "v1"));
        assert_eq!(split("mine@sha256:00"), ("mine@sha256", "00"));
    }
}
