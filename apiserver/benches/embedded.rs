//! What the embedded server costs: a start, a fork, and one operation of each kind.
//!
//! Alternatives stand beside each other in one run: a fork beside a fresh start, the service in-process beside the same
//! over TLS. `cargo bench --bench embedded`.

use std::{cell::Cell, hint::black_box, net::Ipv4Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use reconverge_apiserver::{
    auth::Identity,
    resource::Gvr,
    server::{ApiServer, Options},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}

fn start(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("start");
    group.bench_function("a fresh cluster, listening with its controllers", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let server = ApiServer::new(Options::default());
                let listening = server.serve((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a free port");
                let controllers = server.run_controllers(listening.ca_pem());
                controllers.shutdown().await;
                listening.shutdown().await;
            });
        });
    });
    group.bench_function("a fresh cluster in-process", |b| b.iter(|| black_box(ApiServer::new(Options::default()))));
    let server = ApiServer::new(Options::default());
    group.bench_function("a fork", |b| b.iter(|| black_box(server.fork())));
    group.finish();
}

fn operations(c: &mut Criterion) {
    let server = ApiServer::new(Options::default());
    let client = server.client_as(Identity::admin(), "bench");
    let maps = Gvr::new("", "v1", "configmaps");
    let deployments = Gvr::new("apps", "v1", "deployments");
    client.create(&maps, "default", &config_map("one")).expect("a ConfigMap");
    client.create(&deployments, "default", &deployment("one")).expect("a Deployment");
    let count = Cell::new(0_u64);
    let next = || {
        count.set(count.get() + 1);
        count.get()
    };
    let mut group = c.benchmark_group("operation");
    group.bench_function("get a ConfigMap", |b| b.iter(|| client.get(&maps, "default", "one")));
    group.bench_function("create and delete a ConfigMap", |b| {
        b.iter(|| {
            let name = format!("map-{}", next());
            client.create(&maps, "default", &config_map(&name)).expect("created");
            client.delete(&maps, "default", &name, &json!({})).expect("deleted");
        });
    });
    group.bench_function("patch a ConfigMap", |b| {
        b.iter(|| client.patch(&maps, "", "default", "one", &json!({"data": {"key": next().to_string()}})));
    });
    group.bench_function("get a Deployment", |b| b.iter(|| client.get(&deployments, "default", "one")));
    group.bench_function("patch a Deployment", |b| {
        b.iter(|| client.patch(&deployments, "", "default", "one", &json!({"spec": {"replicas": next() % 5}})));
    });
    group.finish();
}

criterion_group!(benches, start, operations);
criterion_main!(benches);
