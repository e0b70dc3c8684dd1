//! The Kubernetes-aware proxy between the operator and its API server.
