//! A client for the API server, from a kubeconfig file or from inside the cluster, with a deadline for everything.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig as File};
use tower::timeout::TimeoutLayer;

/// Where to learn how to reach the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubeconfig {
    /// This file, and the context in it that is current or named.
    File {
        /// The file.
        path: PathBuf,
        /// Another context than the current one.
        context: Option<String>,
    },
    /// The service account of the pod we run in.
    InCluster,
}

/// How long anything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// To connect.
    pub connect: Duration,
    /// From a request to the head of its answer.
    pub answer: Duration,
    /// Between two pieces of an answer. A quiet watch is ended by the server and begun again well before that.
    pub silence: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(295),
        }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read or makes no sense.
    #[error("cannot use the kubeconfig {path:?}: {reason}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// We do not run in a pod, or its service account is not mounted.
    #[error("not inside a cluster: {reason}; outside of one, give --kubeconfig")]
    NotInCluster {
        /// What is missing.
        reason: String,
    },
    /// TLS or the address cannot be set up.
    #[error("cannot set up a client for {server}: {reason}")]
    Setup {
        /// The API server.
        server: String,
        /// What is wrong.
        reason: String,
    },
}

/// A client. Nothing is sent yet.
pub async fn client(from: &Kubeconfig, deadlines: Deadlines) -> Result<Client, ClientError> {
    let mut config = match from {
        Kubeconfig::File { path, context } => {
            let refused = |error: kube::config::KubeconfigError| ClientError::Kubeconfig {
                path: path.clone(),
                reason: chain(&error),
            };
            if path.to_string_lossy().contains(':') && !path.exists() {
                let reason = "files joined by ':' are not merged here; name one".to_owned();
                return Err(ClientError::Kubeconfig { path: path.clone(), reason });
            }
            let file = File::read_from(path).map_err(refused)?;
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            Config::from_custom_kubeconfig(file, &options).await.map_err(refused)?
        }
        Kubeconfig::InCluster => {
            Config::incluster().map_err(|error| ClientError::NotInCluster { reason: chain(&error) })?
        }
    };
    config.connect_timeout = Some(deadlines.connect);
    config.read_timeout = Some(deadlines.silence);
    config.write_timeout = Some(deadlines.answer);
    let server = config.cluster_url.to_string();
    let builder = ClientBuilder::try_from(config)
        .map_err(|error| ClientError::Setup { server, reason: chain(&error) })?;
    Ok(builder.with_layer(&TimeoutLayer::new(deadlines.answer)).build())
}

/// An error with its causes, each of which says something the others do not.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
