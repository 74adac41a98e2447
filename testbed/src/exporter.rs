//! The exporter that Prometheus scrapes: it says what a test, or a person with `curl`, tells it to say.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the exporter says: a value per metric and node, and text that is added as it is.
#[derive(Debug, Default)]
struct Page {
    values: BTreeMap<String, BTreeMap<String, f64>>,
    appended: String,
}

/// A running exporter.
#[derive(Debug)]
pub struct Exporter {
    page: Arc<Mutex<Page>>,
    port: u16,
    server: JoinHandle<()>,
}

impl Exporter {
    /// Serves `/metrics` on this loopback port until dropped.
    pub async fn start(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let page = Arc::new(Mutex::new(Page::default()));
        let routes = router(Arc::clone(&page));
        let server = tokio::spawn(async move {
            // It ends only by being aborted; a failed accept is retried by the server itself.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { page, port, server })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From the next scrape on, `metric{node="NODE"}` has this value.
    pub fn set(&self, metric: &str, node: &str, value: f64) {
        self.set_all([(metric, node, value)]);
    }

    /// The same for many: a scrape sees all of them or none.
    pub fn set_all<M, N>(&self, values: impl IntoIterator<Item = (M, N, f64)>)
    where
        M: Into<String>,
        N: Into<String>,
    {
        let mut page = held(&self.page);
        for (metric, node, value) in values {
            page.values.entry(metric.into()).or_default().insert(node.into(), value);
        }
    }

    /// From the next scrape on, there is no such series.
    pub fn forget(&self, metric: &str, node: &str) {
        if let Some(nodes) = held(&self.page).values.get_mut(metric) {
            nodes.remove(node);
        }
    }

    /// Adds lines to the page as they are; for labels other than `node`, for timestamps, and for garbage.
    pub fn append(&self, text: &str) {
        text.clone_into(&mut held(&self.page).appended);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// `GET /metrics` for Prometheus; `PUT` and `DELETE /metrics/METRIC/NODE` for people.
fn router(page: Arc<Mutex<Page>>) -> Router {
    Router::new()
        .route("/metrics", get(|State(page): State<Arc<Mutex<Page>>>| async move { held(&page).to_string() }))
        .route("/metrics/{metric}/{node}", put(put_value).delete(delete_value))
        .with_state(page)
}

async fn put_value(
    State(page): State<Arc<Mutex<Page>>>,
    Path((metric, node)): Path<(String, String)>,
    body: String,
) -> Result<(), (StatusCode, String)> {
    let value = parse(&body).map_err(|problem| (StatusCode::BAD_REQUEST, format!("{problem}\n")))?;
    if !is_metric_name(&metric) {
        let problem = format!("{metric:?} is no metric name; use letters, digits, _ and :\n");
        return Err((StatusCode::BAD_REQUEST, problem));
    }
    held(&page).values.entry(metric).or_default().insert(node, value);
    Ok(())
}

async fn delete_value(State(page): State<Arc<Mutex<Page>>>, Path((metric, node)): Path<(String, String)>) {
    if let Some(nodes) = held(&page).values.get_mut(&metric) {
        nodes.remove(&node);
    }
}

/// A value as a person types it.
pub fn parse(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{:?} is not a number; write it like 40 or 2.5", text.trim()))
}

fn is_metric_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (metric, nodes) in &self.values {
            writeln!(f, "# TYPE {metric} gauge")?;
            for (node, value) in nodes {
                write!(f, "{metric}{{node=\"")?;
                for character in node.chars() {
                    match character {
                        '\\' | '"' => write!(f, "\\{character}")?,
                        '\n' => f.write_str("\\n")?,
                        _ => f.write_char(character)?,
                    }
                }
                writeln!(f, "\"}} {value}")?;
            }
        }
        f.write_str(&self.appended)
    }
}

fn held(page: &Mutex<Page>) -> MutexGuard<'_, Page> {
    page.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_page_holds_what_was_set_and_not_what_was_forgotten() {
        let exporter = Exporter::start(0).await.expect("a free port");
        exporter.set("node_power_watts", "a", 23.4);
        exporter.set("node_power_watts", "b\"", 1e9);
        exporter.set("node_power_watts", "c", 1.0);
        exporter.forget("node_power_watts", "c");
        exporter.append("odd{x=\"y\"} NaN\n");
        assert_eq!(
            held(&exporter.page).to_string(),
            "# TYPE node_power_watts gauge\n\
             node_power_watts{node=\"a\"} 23.4\n\
             node_power_watts{node=\"b\\\"\"} 1000000000\n\
             odd{x=\"y\"} NaN\n"
        );
    }

    #[test]
    fn a_value_that_is_no_number_is_refused_in_words() {
        assert_eq!(parse(" warm\n"), Err("\"warm\" is not a number; write it like 40 or 2.5".to_owned()));
        assert_eq!(parse("32.59\n"), Ok(32.59));
    }
}
