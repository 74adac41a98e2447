//! The client: bad kubeconfigs are named, and an API server that says nothing is given up.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::time::Duration;

use cluster::definition::installed;
use cluster::{Deadlines, Kubeconfig, client};

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tas-cluster-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::File { path: self.0.clone(), context: None }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pointing_at(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

#[tokio::test]
async fn an_api_server_that_says_nothing_is_given_up_at_the_deadline() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = TempFile::new("silent", &pointing_at(&format!("http://{}", silent.local_addr().unwrap())));
    let deadlines = Deadlines { answer: Duration::from_millis(200), ..Deadlines::default() };
    let client = client(&file.kubeconfig(), deadlines).await.unwrap();
    let trouble = installed(&client).await.unwrap_err().to_string();
    assert!(trouble.starts_with("cannot reach the API server to get customresourcedefinitions"), "{trouble}");
    drop(silent);
    let trouble = installed(&client).await.unwrap_err().to_string();
    assert!(trouble.starts_with("cannot reach the API server to get customresourcedefinitions"), "{trouble}");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named() {
    let refused = async |text: &str| {
        let file = TempFile::new("bad", text);
        let error = client(&file.kubeconfig(), Deadlines::default()).await.err().unwrap().to_string();
        error.replace(&file.0.display().to_string(), "FILE")
    };
    assert!(refused("not: [yaml").await.starts_with("cannot use the kubeconfig \"FILE\": "));
    assert!(
        refused("apiVersion: v1\nkind: Config\n").await.starts_with("cannot use the kubeconfig \"FILE\": ")
    );
    let gone = Kubeconfig::File { path: "/nowhere/at/all".into(), context: None };
    let error = client(&gone, Deadlines::default()).await.err().unwrap().to_string();
    assert!(error.starts_with("cannot use the kubeconfig \"/nowhere/at/all\": "), "{error}");
}
