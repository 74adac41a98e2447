//! What keeps us from talking to the API server, in words that name the way out.

use std::fmt;

use kube::Error;
use kube::runtime::watcher;

use crate::client::chain;

/// What we wanted to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read all objects.
    List,
    /// Be told of changes.
    Watch,
    /// Make one.
    Create,
    /// Change one.
    Patch,
    /// Replace one.
    Update,
}

impl Verb {
    /// As roles write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Update => "update",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the API server did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// 403: the right is missing.
    #[error("not allowed to {verb} {resource}; grant it, as deploy/rbac/tas-serve.yaml does ({said})")]
    Forbidden {
        /// The verb that is missing.
        verb: Verb,
        /// The resource, as `kubectl auth can-i` takes it.
        resource: String,
        /// What the API server said.
        said: String,
    },
    /// 401: it does not know who we are.
    #[error(
        "the API server does not accept our credentials for {resource}; is the token or certificate expired? ({said})"
    )]
    Unauthorized {
        /// The resource asked for.
        resource: String,
        /// What the API server said.
        said: String,
    },
    /// 404: there is no such kind.
    #[error(
        "{resource} does not exist; install its CustomResourceDefinition (deploy/crds), it is looked for again"
    )]
    NoSuchKind {
        /// The resource asked for.
        resource: String,
    },
    /// Another refusal.
    #[error("cannot {verb} {resource}: {said}")]
    Refused {
        /// What we wanted to do.
        verb: Verb,
        /// To what.
        resource: String,
        /// What the API server said.
        said: String,
    },
    /// No answer.
    #[error("cannot reach the API server to {verb} {resource}: {reason}")]
    Unreachable {
        /// What we wanted to do.
        verb: Verb,
        /// To what.
        resource: String,
        /// What happened instead.
        reason: String,
    },
}

impl Trouble {
    /// From an error of the client.
    pub fn of(error: &Error, verb: Verb, resource: &str) -> Self {
        let resource = resource.to_owned();
        match error {
            Error::Api(status) => Self::of_status(status.code, &status.message, verb, resource),
            other => Self::Unreachable { verb, resource, reason: shortened(&chain(other)) },
        }
    }

    /// From an error of a watch.
    pub fn of_watch(error: &watcher::Error, resource: &str) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::of(error, Verb::List, resource),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                Self::of(error, Verb::Watch, resource)
            }
            watcher::Error::WatchError(status) => {
                Self::of_status(status.code, &status.message, Verb::Watch, resource.to_owned())
            }
            watcher::Error::NoResourceVersion => Self::Refused {
                verb: Verb::Watch,
                resource: resource.to_owned(),
                said: "the answer has no resourceVersion".to_owned(),
            },
        }
    }

    pub(crate) fn of_status(code: u16, message: &str, verb: Verb, resource: String) -> Self {
        let said = shortened(message);
        match (code, verb) {
            (401, _) => Self::Unauthorized { resource, said },
            (403, _) => Self::Forbidden { verb, resource, said },
            (404, Verb::List | Verb::Watch) => Self::NoSuchKind { resource },
            _ => Self::Refused { verb, resource, said: format!("{code} {said}") },
        }
    }
}

fn shortened(text: &str) -> String {
    const KEPT: usize = 200;
    match text.char_indices().nth(KEPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
