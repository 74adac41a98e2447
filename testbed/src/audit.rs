//! The API server's audit log: who asked for what, and was it allowed.

use serde::Deserialize;

/// One finished request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// Who asked.
    pub user: User,
    /// The path with its query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// What it was about, unless it was not about an object.
    pub object_ref: Option<Object>,
    /// How it was answered.
    pub response_status: Option<Status>,
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The name that RBAC knows.
    pub username: String,
}

/// What a request was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// The API group; empty for the core one.
    pub api_group: String,
    /// The plural name.
    pub resource: String,
    /// `status`, `eviction`, `binding`, …
    pub subresource: String,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// The object's name; empty for lists.
    pub name: String,
}

/// How a request was answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
}

/// A line that is not an audit event.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the audit log is not an event: {cause}")]
pub struct AuditError {
    line: usize,
    cause: serde_json::Error,
}

/// Reads the log; a last line that is still being written is left for the next time.
pub fn read(log: &str) -> Result<Vec<Request>, AuditError> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let parse =
        |(index, line)| serde_json::from_str(line).map_err(|cause| AuditError { line: index + 1, cause });
    whole.lines().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"kind":"Event","stage":"ResponseComplete","verb":"patch","requestURI":"/api/v1/nodes/a?x=y","user":{"username":"tas","groups":["g"]},"objectRef":{"resource":"nodes","name":"a","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200}}"#;

    #[test]
    fn whole_lines_are_read_and_half_a_line_is_left() {
        let expected = Request {
            verb: "patch".to_owned(),
            user: User { username: "tas".to_owned() },
            uri: "/api/v1/nodes/a?x=y".to_owned(),
            object_ref: Some(Object {
                resource: "nodes".to_owned(),
                name: "a".to_owned(),
                ..Object::default()
            }),
            response_status: Some(Status { code: 200 }),
        };
        assert_eq!(read(&format!("{EVENT}\n{}", &EVENT[..40])).expect("readable"), [expected]);
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let error = read("{}\n").expect_err("{} has no verb");
        assert!(error.to_string().starts_with("line 1 of the audit log is not an event: "), "{error}");
    }
}
