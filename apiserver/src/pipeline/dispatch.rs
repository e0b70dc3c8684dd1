//! From a request to the function that answers it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{auth::Identity, captured, discovery, status::ApiError};

use super::{
    access,
    answer::{self, Answer},
    body,
    call::Call,
    cluster::Cluster,
    create, delete, list,
    negotiate::{self, Form},
    patch, subresource,
    target::{Query, Target},
    update,
    watch::Watcher,
};

/// A request with its body read and its sender known.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    pub path: String,
    pub query: String,
    pub accept: String,
    pub content_type: String,
    pub user_agent: String,
    /// `None` for somebody without credentials.
    pub user: Option<Identity>,
    pub body: Bytes,
}

/// Paths that anybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

impl Cluster {
    /// Answers one request.
    pub fn respond(self: &Arc<Self>, request: &Request) -> Answer {
        let root = request.path.split('/').take(2).collect::<Vec<_>>().join("/");
        if PUBLIC.contains(&root.as_str()) {
            return public(&root);
        }
        let Some(user) = request.user.clone() else { return ApiError::unauthorized().into() };
        if let Some(target) = Target::parse(&request.path) {
            return self.resource(request, &target, user).unwrap_or_else(Answer::from);
        }
        self.document(request, &user).unwrap_or_else(Answer::from)
    }

    /// Discovery, OpenAPI and the other documents outside of resources.
    fn document(&self, request: &Request, user: &Identity) -> Result<Answer, ApiError> {
        self.read(|state| access::authorise_path(state, user, &request.method, &request.path))?;
        let path = request.path.trim_matches('/');
        let customs = self.read(|state| state.custom_list());
        let found = match path.split('/').next().unwrap_or_default() {
            "api" | "apis" => discovery::discover(path, negotiate::aggregated_discovery(&request.accept), &customs),
            "openapi" => discovery::openapi(path, negotiate::wants_openapi_protobuf(&request.accept), &customs),
            "" => {
                return Ok(Answer::json(
                    200,
                    &json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}),
                ));
            }
            "metrics" | "logs" | ".well-known" | "openid" => {
                return Err(ApiError::unsupported(&format!("the path {}", request.path)));
            }
            _ => None,
        };
        Ok(found.map_or_else(Answer::unknown_path, |d| Answer::bytes(200, d.content_type, d.body)))
    }

    fn resource(self: &Arc<Self>, request: &Request, target: &Target, user: Identity) -> Result<Answer, ApiError> {
        let Some(kind) = self.read(|state| state.resource(&target.gvr)) else { return Ok(Answer::unknown_path()) };
        // The parts of the path must fit the scope of the resource.
        let addressed = if kind.namespaced {
            target.name.is_empty() || !target.namespace.is_empty()
        } else {
            target.namespace.is_empty()
        };
        let known_sub = target.subresource.is_empty() || kind.subresources.contains_key(&target.subresource);
        if !addressed || !known_sub {
            return Ok(Answer::unknown_path());
        }
        let query = Query::parse(&request.query);
        let verb = verb(request, target, &query)?;
        let allowed = match kind.subresources.get(&target.subresource) {
            Some(sub) => sub.verbs.iter().any(|v| v == verb),
            None => kind.has_verb(verb),
        };
        if !allowed || (verb == "create" && kind.namespaced && target.namespace.is_empty()) {
            return Err(ApiError::method_not_allowed());
        }
        let mut call = Call::internal(kind, &target.namespace, &target.name, user, "");
        call.subresource.clone_from(&target.subresource);
        self.read(|state| access::authorise(state, &call, verb))?;
        call.warnings.extend(call.kind.custom.as_ref().and_then(|c| c.deprecation.clone()));
        self.perform(request, &query, verb, call)
    }

    fn perform(
        self: &Arc<Self>,
        request: &Request,
        query: &Query,
        verb: &str,
        mut call: Call,
    ) -> Result<Answer, ApiError> {
        let forms = negotiate::forms(&request.accept)?;
        let form = answer::choose_form(&forms, &call.kind)?;
        match verb {
            "watch" => return Ok(Answer::watch(Watcher::start(self, call, query, form)?)),
            "list" => {
                let mut answer = self.transact(|tx| list::list(tx, &call, query, form))?;
                answer.warnings = call.warnings;
                return Ok(answer);
            }
            "delete" | "deletecollection" if call.subresource.is_empty() => {
                return self.remove(request, query, verb, &mut call);
            }
            _ => {}
        }
        if verb != "get" {
            call.read_options(query, &request.user_agent)?;
        }
        if !matches!(call.subresource.as_str(), "" | "status") {
            return self.transact(|tx| subresource::answer(tx, &mut call, verb, request, query));
        }
        let (code, object) = match verb {
            "get" => (200, self.read(|state| list::get(state, &call, query))?),
            "create" => {
                let decoded = body::decode(&request.content_type, &request.body)?;
                if subresource::is_review(&call) {
                    return self.transact(|tx| subresource::review(tx, &call, decoded.value));
                }
                let created = self.transact(|tx| create::create(tx, &mut call, decoded.value, &decoded.duplicates))?;
                (201, created)
            }
            "update" => {
                let decoded = body::decode(&request.content_type, &request.body)?;
                let done = self.transact(|tx| update::update(tx, &mut call, decoded.value, &decoded.duplicates))?;
                (if done.created { 201 } else { 200 }, done.object)
            }
            "patch" => {
                let patch = patch::Patch::decode(&call, &request.content_type, &request.body)?;
                let done = self.transact(|tx| patch::patch(tx, &mut call, &patch))?;
                (if done.created { 201 } else { 200 }, done.object)
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        Ok(self.shown(code, form, &call, &object))
    }

    fn shown(&self, code: u16, form: Form, call: &Call, object: &Value) -> Answer {
        let mut answer = if form == Form::Object && super::convert::is_identity(&call.kind) {
            Answer::json(code, object)
        } else {
            Answer::json(code, &answer::present(form, &call.kind, object, self.clock.now()))
        };
        answer.warnings.clone_from(&call.warnings);
        answer
    }

    fn remove(&self, request: &Request, query: &Query, verb: &str, call: &mut Call) -> Result<Answer, ApiError> {
        call.dry_run = query.get("dryRun") == "All";
        let options = if request.body.is_empty() {
            delete::DeleteOptions::from_query(query)?
        } else {
            let decoded = body::decode(&request.content_type, &request.body)?;
            delete::DeleteOptions::read(&decoded.value)?
        };
        self.transact(|tx| {
            if verb == "deletecollection" {
                return delete::delete_collection(tx, call, &options, query);
            }
            let done = delete::delete(tx, call, &options)?;
            Ok(Answer::json(200, &done.answer(call)))
        })
    }
}

fn public(root: &str) -> Answer {
    if root == "/version" {
        return Answer::bytes(200, "application/json", captured::file("version.json").unwrap_or_default());
    }
    Answer::text(200, "ok")
}

fn verb(request: &Request, target: &Target, query: &Query) -> Result<&'static str, ApiError> {
    let named = !target.name.is_empty();
    Ok(match request.method.as_str() {
        "GET" | "HEAD" if query.flag("watch") => "watch",
        "GET" | "HEAD" if named => "get",
        "GET" | "HEAD" => "list",
        "POST" if !named || !target.subresource.is_empty() => "create",
        "PUT" if named => "update",
        "PATCH" if named => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => return Err(ApiError::method_not_allowed()),
    })
}
