//! Lists and watches every resource of a server into the mirror, and passes changes on.
//!
//! # Guarantees
//! A watch that ends is taken up where it was; one that cannot be is begun again by a list, which also tells what was
//! deleted meanwhile. Resources of CRDs come and go with their CRD: one is known before the change that established it is passed on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{BoxError, Transport, client::path, discovery::of_definition, mirror::Mirror};
use crate::{
    clock::SharedClock,
    controllers::{
        Change, ResourceInfo,
        object::{name, text},
    },
    resource::Gvr,
};

/// How long the server keeps a watch open; well below what load balancers tolerate.
const WATCH_SECONDS: u32 = 290;
/// The first delay after a failure; doubles up to [`LAST_DELAY`].
const FIRST_DELAY: Duration = Duration::from_millis(20);
const LAST_DELAY: Duration = Duration::from_secs(1);

/// News about the resources themselves.
enum News {
    Served(ResourceInfo),
    Gone(String),
}

/// What all followers share.
#[derive(Clone)]
struct Shared {
    transport: Arc<dyn Transport>,
    mirror: Arc<Mirror>,
    clock: SharedClock,
    changes: mpsc::UnboundedSender<Change>,
    news: mpsc::UnboundedSender<News>,
}

/// See the module.
pub(super) struct Feed {
    shared: Shared,
    inbox: mpsc::UnboundedReceiver<News>,
    stop: CancellationToken,
}

impl Feed {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        mirror: Arc<Mirror>,
        clock: SharedClock,
        changes: mpsc::UnboundedSender<Change>,
        stop: CancellationToken,
    ) -> Self {
        let (news, inbox) = mpsc::unbounded_channel();
        Self { shared: Shared { transport, mirror, clock, changes, news }, inbox, stop }
    }

    /// Follows everything until told to stop; returns when every follower has ended.
    pub(super) async fn run(mut self) {
        let mut followers = JoinSet::new();
        let mut stops: BTreeMap<String, CancellationToken> = BTreeMap::new();
        let mut follow = |info: ResourceInfo, stops: &mut BTreeMap<String, CancellationToken>| {
            let stop = self.stop.child_token();
            if let Some(old) = stops.insert(info.gvr.group_resource(), stop.clone()) {
                old.cancel();
            }
            let shared = self.shared.clone();
            followers.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = shared.follow(&info.gvr) => {}
                }
            });
        };
        for info in self.shared.mirror.resources() {
            follow(info, &mut stops);
        }
        loop {
            let news = tokio::select! {
                () = self.stop.cancelled() => break,
                news = self.inbox.recv() => news,
            };
            match news {
                Some(News::Served(info)) => follow(info, &mut stops),
                Some(News::Gone(resource)) => {
                    if let Some(stop) = stops.remove(&resource) {
                        stop.cancel();
                    }
                }
                None => break,
            }
        }
        while followers.join_next().await.is_some() {}
    }
}

impl Shared {
    async fn follow(&self, gvr: &Gvr) {
        let mut delay = FIRST_DELAY;
        let mut known: Option<String> = None;
        loop {
            let done = match known.take() {
                None => self.list(gvr).await.map(Some),
                Some(revision) => self.watch(gvr, revision).await,
            };
            match done {
                Ok(next) => {
                    delay = FIRST_DELAY;
                    known = next;
                }
                Err(error) => {
                    tracing::debug!(resource = %gvr, %error, "cannot follow");
                    self.clock.sleep(delay).await;
                    delay = (delay * 2).min(LAST_DELAY);
                }
            }
        }
    }

    async fn open(&self, path: String) -> Result<super::Body, BoxError> {
        let request = Request::get(path).header(header::ACCEPT, "application/json").body(Vec::new())?;
        let response = self.transport.send(request).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(format!("the answer is {}", response.status()).into())
    }

    async fn list(&self, gvr: &Gvr) -> Result<String, BoxError> {
        let body = self.open(path(gvr, "", "", "")).await?.collect().await?.to_bytes();
        let mut answer: Value = serde_json::from_slice(&body)?;
        let items = match answer["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for change in self.mirror.replace(gvr, items) {
            self.pass_on(change);
        }
        Ok(text(&answer, "/metadata/resourceVersion").to_owned())
    }

    /// Watches from a revision; gives the one to go on from, or `None` when only a list helps.
    async fn watch(&self, gvr: &Gvr, mut revision: String) -> Result<Option<String>, BoxError> {
        let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}");
        let path = format!("{}?{query}&resourceVersion={revision}", path(gvr, "", "", ""));
        let mut body = self.open(path).await?;
        let mut buffer = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line)?;
                let object = event["object"].take();
                let kind = text(&event, "/type");
                if kind == "ERROR" {
                    // 410 in most cases: history is gone.
                    return Ok(None);
                }
                text(&object, "/metadata/resourceVersion").clone_into(&mut revision);
                if kind != "BOOKMARK" {
                    let change = Change { gvr: gvr.clone(), object, deleted: kind == "DELETED" };
                    self.mirror.observe(&change);
                    self.pass_on(change);
                }
            }
        }
        Ok(Some(revision))
    }

    fn pass_on(&self, change: Change) {
        let mut lost = Vec::new();
        if change.gvr.group == "apiextensions.k8s.io" && change.gvr.resource == "customresourcedefinitions" {
            if change.deleted {
                // A CRD has the name of its resource.
                let resource = name(&change.object).to_owned();
                lost = self.mirror.drop_resource(&resource);
                let _ = self.news.send(News::Gone(resource));
            } else if let Some(info) = of_definition(&change.object)
                && self.mirror.add(info.clone())
            {
                let _ = self.news.send(News::Served(info));
            }
        }
        // Nobody listens any more when the controllers were ended.
        for change in lost.into_iter().chain([change]) {
            let _ = self.changes.send(change);
        }
    }
}
