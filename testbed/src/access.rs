//! Kubeconfig files: how a program or a person comes in, and as whom.

use std::path::{Path, PathBuf};

use serde_json::json;

/// What a user shows to be let in.
#[derive(Clone)]
pub enum Credentials {
    /// A client certificate and its key, as files.
    Certificate {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// A bearer token.
    Token(String),
}

/// The text of a kubeconfig with one cluster, one user and one context. JSON, which is YAML.
pub fn kubeconfig(server: &str, authority: &Path, credentials: &Credentials) -> String {
    let user = match credentials {
        Credentials::Certificate { certificate, key } => {
            json!({"client-certificate": certificate, "client-key": key})
        }
        Credentials::Token(token) => json!({"token": token}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_read_by_the_client_library() {
        let text =
            kubeconfig("https://127.0.0.1:1", Path::new("/ca.crt"), &Credentials::Token("t".to_owned()));
        let read = kube::config::Kubeconfig::from_yaml(&text).expect("it is a kubeconfig");
        assert_eq!(read.current_context.as_deref(), Some("testbed"));
    }
}
