//! The text of a kubeconfig.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

/// A kubeconfig with one cluster, one user and one context, all by the name `reconverge`.
pub(super) fn render(url: &str, ca_pem: &str, token: &str) -> String {
    let ca = BASE64.encode(ca_pem);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: reconverge\n\
         \x20 cluster:\n\
         \x20   server: {url}\n\
         \x20   certificate-authority-data: {ca}\n\
         users:\n\
         - name: reconverge\n\
         \x20 user:\n\
         \x20   token: {token}\n\
         contexts:\n\
         - name: reconverge\n\
         \x20 context:\n\
         \x20   cluster: reconverge\n\
         \x20   user: reconverge\n\
         \x20   namespace: default\n\
         current-context: reconverge\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn the_text_is_yaml_of_the_expected_shape() {
        let text = super::render("https://127.0.0.1:1", "PEM", "t");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], "UEVN");
        assert_eq!(value["users"][0]["user"]["token"], "t");
        assert_eq!(value["contexts"][0]["context"]["user"], "reconverge");
    }
}
