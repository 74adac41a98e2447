//! Asks the real extender as kube-scheduler does: JSON over a kept connection, filter first, then scores.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use api::keys::{FILTER_ROUTE, POD_POLICY_LABEL, PRIORITIZE_ROUTE, SCHEDULING_RESOURCE};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use server::loopback::Loopback;
use sim::{Ask, Candidate};

/// Longer than any answer takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// Longest answer that is read; far more than 500 nodes need.
const MAX_ANSWER: usize = 16 << 20;

/// A scheduler's end of the connection, and the extender at the other.
#[derive(Debug)]
pub struct Caller {
    /// Closed before the extender is stopped, so that nobody waits for the other.
    connection: Connection,
    extender: Loopback,
}

/// A connection that is kept between two questions.
#[derive(Debug)]
struct Connection {
    to: SocketAddr,
    kept: Option<BufReader<TcpStream>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filtered {
    node_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Scored {
    host: String,
    score: u32,
}

impl Caller {
    /// Starts the extender on a loopback address.
    pub fn new() -> io::Result<Self> {
        let extender = Loopback::start().map_err(|error| {
            io::Error::other(format!("its extender needs a port on 127.0.0.1 and cannot have one: {error}"))
        })?;
        let connection = Connection { to: extender.address(), kept: None };
        Ok(Self { connection, extender })
    }

    /// Which nodes may take the pod, and how good they are.
    pub fn ask(&mut self, ask: &Ask<'_>) -> io::Result<Vec<Candidate>> {
        self.extender.publish(ask.view, ask.now);
        let places: HashMap<&str, usize> =
            ask.nodes.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        let place = |name: &str| {
            let astray = || failed(format!("it answered about {name:?}, which nobody asked for"));
            places.get(name).copied().ok_or_else(astray)
        };
        let filtered: Filtered = self.connection.post(FILTER_ROUTE, &question(ask, ask.nodes))?;
        let names: Vec<&str> = filtered.node_names.iter().map(String::as_str).collect();
        let mut candidates = Vec::with_capacity(names.len());
        for name in &names {
            candidates.push(Candidate { place: place(name)?, score: 0 });
        }
        // kube-scheduler takes an only node without asking how good it is.
        if names.len() > 1 {
            let answers: Vec<Scored> = self.connection.post(PRIORITIZE_ROUTE, &question(ask, &names))?;
            let scores: HashMap<&str, u32> =
                answers.iter().map(|answer| (answer.host.as_str(), answer.score)).collect();
            for (candidate, name) in candidates.iter_mut().zip(&names) {
                candidate.score = scores.get(name).copied().unwrap_or(0);
            }
        }
        Ok(candidates)
    }
}

impl Connection {
    fn post<T: DeserializeOwned>(&mut self, route: &str, body: &Value) -> io::Result<T> {
        let body = body.to_string();
        let address = self.to;
        let request = format!(
            "POST {route} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = match self.kept.take() {
            // A connection that was closed while the demo paused is no failure: ask on a new one.
            Some(kept) => exchange(kept, &request).or_else(|_| exchange(connect(address)?, &request)),
            None => connect(address).and_then(|fresh| exchange(fresh, &request)),
        };
        let (kept, answer) = answer.map_err(failed)?;
        self.kept = Some(kept);
        serde_json::from_slice(&answer).map_err(failed)
    }
}

/// Never a broken pipe: that would read as an audience that has left.
fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("its extender did not answer as it should: {error}"))
}

fn question(ask: &Ask<'_>, nodes: &[&str]) -> Value {
    json!({
        "Pod": {
            "metadata": {
                "name": ask.pod,
                "namespace": ask.policy.namespace,
                "labels": {POD_POLICY_LABEL: ask.policy.name},
            },
            "spec": {"containers": [{"name": "app", "resources": {"limits": {SCHEDULING_RESOURCE: "1"}}}]},
        },
        "Nodes": null,
        "NodeNames": nodes,
    })
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(BufReader::new(stream))
}

/// Sends the request and reads the answer's body; gives the connection back for the next.
fn exchange(
    mut connection: BufReader<TcpStream>,
    request: &str,
) -> io::Result<(BufReader<TcpStream>, Vec<u8>)> {
    connection.get_mut().write_all(request.as_bytes())?;
    let mut status = String::new();
    let mut length = None;
    loop {
        let mut line = String::new();
        if connection.by_ref().take(MAX_ANSWER as u64).read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
        }
        let line = line.trim_end();
        match line.split_once(':') {
            _ if line.is_empty() => break,
            _ if status.is_empty() => line.clone_into(&mut status),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok();
            }
            _ => {}
        }
    }
    let length = length.filter(|length| *length <= MAX_ANSWER);
    let length = length.ok_or_else(|| io::Error::other("an answer without a length"))?;
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    if !status.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))));
    }
    Ok((connection, body))
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use sim::{Scenario, Trial, by_engine};

    use super::super::{lines, power_policy, report, stage::Stage};
    use super::*;

    fn stage(seed: u64, placing: impl FnMut(&Ask<'_>) -> io::Result<Vec<Candidate>> + 'static) -> Stage {
        let policy = power_policy();
        let scenario = Scenario::story(seed, &policy, 12, 150);
        Stage::new(Trial::new(scenario, policy), "tas", placing)
    }

    fn told(mut stage: Stage) -> (String, String) {
        let mut story = Vec::new();
        lines::tell(&mut stage, &mut story, None).unwrap();
        (String::from_utf8(story).unwrap(), report::json(&stage).unwrap())
    }

    #[test]
    fn the_story_is_the_same_through_a_socket_as_by_the_engine_itself() {
        for seed in [1, 7, 4_711] {
            let mut caller = Caller::new().unwrap();
            let direct = told(stage(seed, |ask| by_engine(ask).map_err(|never| match never {})));
            assert_eq!(told(stage(seed, move |ask| caller.ask(ask))), direct);
            assert!(direct.0.contains("refused"), "a story with something to decide:\n{}", direct.0);
        }
    }

    #[test]
    fn a_connection_that_was_closed_meanwhile_is_opened_again() {
        let mut caller = Caller::new().unwrap();
        let mut stage = stage(1, move |ask| {
            if let Some(kept) = &caller.connection.kept {
                kept.get_ref().shutdown(Shutdown::Both)?;
            }
            caller.ask(ask)
        });
        stage.play_until(30).unwrap();
        assert!(stage.trial.with().tally().pods_placed > 1);
    }

    /// What asking says when the other end answers so and hangs up.
    fn refused(answer: &'static str) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut connection = Connection { to: listener.local_addr().unwrap(), kept: None };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut seen = Vec::new();
                let mut piece = [0; 1024];
                while !seen.ends_with(b"{}") {
                    let read = stream.read(&mut piece).unwrap();
                    seen.extend_from_slice(&piece[..read]);
                }
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let error = connection.post::<Value>(FILTER_ROUTE, &json!({})).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "an audience that left is something else");
            error.to_string()
        })
    }

    #[test]
    fn an_extender_that_does_not_answer_well_ends_the_demo_and_says_so() {
        let said = "its extender did not answer as it should: ";
        assert_eq!(refused(""), format!("{said}the connection was closed"));
        assert_eq!(
            refused("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno!"),
            format!("{said}HTTP/1.1 503 Service Unavailable: no!")
        );
        assert_eq!(refused("HTTP/1.1 200 OK\r\n\r\n"), format!("{said}an answer without a length"));
        assert_eq!(
            refused("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"),
            format!("{said}failed to fill whole buffer")
        );
    }
}
