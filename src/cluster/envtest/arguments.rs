//! The command lines of a control plane's programs.

use std::path::PathBuf;

/// Where one control plane lives.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub folder: PathBuf,
    pub etcd_port: u16,
    pub peer_port: u16,
    pub api_port: u16,
}

/// As the embedded lane has it, so that addresses look alike.
const SERVICE_NETWORK: &str = "10.96.0.0/16";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Controllers of kube-controller-manager that are left out: those of nodes and clouds, since the node is simulated and
/// sends no heartbeats; those of volumes, since they are simulated, too; and the garbage collector, which learns of a
/// new CRD at its next look at discovery only, half a minute later. The harness runs its own instead.
const LEFT_OUT: [&str; 9] = [
    "garbage-collector-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "node-route-controller",
    "service-lb-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "ttl-controller",
];

impl Layout {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub(super) fn api_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    fn shown(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    pub(super) fn etcd(&self) -> Vec<String> {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let client = self.etcd_url();
        flags(&[
            ("name", "default"),
            ("data-dir", &self.shown("etcd")),
            ("listen-client-urls", &client),
            ("advertise-client-urls", &client),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &format!("default={peer}")),
            // Nothing has to survive a power cut.
            ("unsafe-no-fsync", "true"),
            // A wipe is one transaction of whatever size.
            ("max-txn-ops", "1000000"),
            ("max-request-bytes", "134217728"),
            ("log-level", "warn"),
        ])
    }

    pub(super) fn apiserver(&self) -> Vec<String> {
        flags(&[
            ("etcd-servers", &self.etcd_url()),
            ("bind-address", "127.0.0.1"),
            ("secure-port", &self.api_port.to_string()),
            // A loopback address is none that Endpoints may have.
            ("endpoint-reconciler-type", "none"),
            ("tls-cert-file", &self.shown("apiserver.crt")),
            ("tls-private-key-file", &self.shown("apiserver.key")),
            ("token-auth-file", &self.shown("tokens.csv")),
            ("authorization-mode", "RBAC"),
            ("allow-privileged", "true"),
            ("service-cluster-ip-range", SERVICE_NETWORK),
            ("service-account-issuer", ISSUER),
            ("service-account-key-file", &self.shown("accounts.pub")),
            ("service-account-signing-key-file", &self.shown("accounts.key")),
            // The node is ready when it is made, and nobody would take the taint off.
            ("disable-admission-plugins", "TaintNodesByCondition"),
            ("profiling", "false"),
        ])
    }

    pub(super) fn controller_manager(&self) -> Vec<String> {
        let controllers: Vec<String> =
            std::iter::once("*".to_owned()).chain(LEFT_OUT.map(|name| format!("-{name}"))).collect();
        flags(&[
            ("kubeconfig", &self.shown("controller-manager.kubeconfig")),
            ("controllers", &controllers.join(",")),
            ("use-service-account-credentials", "true"),
            ("service-account-private-key-file", &self.shown("accounts.key")),
            ("root-ca-file", &self.shown("ca.crt")),
            ("leader-elect", "false"),
            // It serves nobody.
            ("secure-port", "0"),
            ("allocate-node-cidrs", "false"),
            // The defaults, 20 and 30, are for clusters of many clients; here they only make runs slow.
            ("kube-api-qps", "500"),
            ("kube-api-burst", "1000"),
            ("profiling", "false"),
        ])
    }
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// A user of the token file: `token,user,uid,"groups"`.
pub(super) fn token_line(token: &str, user: &str, groups: &str) -> String {
    format!("{token},{user},{user},\"{groups}\"\n")
}

/// Whether a program failed because another one was faster with its port.
pub(super) fn lost_port(log: &str) -> bool {
    log.contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { folder: "/f".into(), etcd_port: 1, peer_port: 2, api_port: 3 }
    }

    #[test]
    fn the_server_keeps_its_rules_and_listens_here_only() {
        let all = layout().apiserver();
        for wanted in [
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--secure-port=3",
            "--etcd-servers=http://127.0.0.1:1",
            "--token-auth-file=/f/tokens.csv",
        ] {
            assert!(all.iter().any(|flag| flag == wanted), "{wanted} is not among {all:?}");
        }
        // Pods get their tokens as in a cluster.
        assert!(!all.iter().any(|flag| flag.contains("disable-admission-plugins") && flag.contains("ServiceAccount")));
    }

    #[test]
    fn what_the_harness_does_itself_is_left_out() {
        let all = layout().controller_manager();
        let controllers = all.iter().find(|flag| flag.starts_with("--controllers=*,")).unwrap();
        assert!(controllers.contains("-garbage-collector-controller"), "{controllers}");
        assert!(!controllers.contains("-deployment-controller"), "{controllers}");
    }

    #[test]
    fn etcd_forgets_on_power_loss_and_takes_large_transactions() {
        let all = layout().etcd();
        assert!(
            all.contains(&"--unsafe-no-fsync=true".to_owned()) && all.contains(&"--max-txn-ops=1000000".to_owned())
        );
        assert_eq!(token_line("t", "u", "a,b"), "t,u,u,\"a,b\"\n");
    }
}
