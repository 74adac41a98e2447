//! Looks at the files again and again, and swaps what is served when they have changed for the better.
//!
//! Contents are compared, not times or inotify events: a mounted Secret changes by a symlink swap two directories up,
//! and three small files every few seconds cost nothing.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

use super::material::{Contents, Material, Problem, assemble};
use super::{Clients, Live, Settings, Stage};
use crate::counters::Counter;
use crate::plain;
use crate::shutdown::{Phase, Shutdown};

/// The largest certificate, key or CA file that is read.
const LARGEST_FILE: u64 = 1024 * 1024;

/// How often the files are looked at unless told otherwise.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What to do about the files as they are now.
enum Verdict {
    /// Nothing has changed.
    Same,
    /// Two looks in a row differ: somebody is writing. Look again later.
    Settling,
    /// Good and new.
    Replace(Material),
    /// Bad; what is in use stays in use.
    Keep(Problem),
}

/// Judges two looks at the files in a row, given what was judged last and whether that was found bad. Bad files are
/// judged again although unchanged, because "not valid yet" passes by itself.
fn judge(
    last: &Contents,
    last_was_bad: bool,
    first_look: &Contents,
    second_look: &Contents,
    settings: &Settings,
    now: i64,
) -> Verdict {
    if first_look == last && !last_was_bad {
        return Verdict::Same;
    }
    if first_look != second_look {
        return Verdict::Settling;
    }
    match assemble(second_look, settings, now) {
        Ok(material) => Verdict::Replace(material),
        Err(problem) => Verdict::Keep(problem),
    }
}

impl Live {
    /// Reads the files for the first time, at `now` (see [`unix_now`]). Afterwards [`Reloader::run`] keeps them current.
    pub fn load(settings: Settings, now: i64) -> Result<(Arc<Self>, Reloader), Problem> {
        let contents = look(&settings);
        let material = assemble(&contents, &settings, now)?;
        if material.certificate.is_ca {
            tracing::warn!(
                file = %settings.certificate.display(),
                "our certificate is a CA's own; whoever reads our key can sign for the whole CA, so issue one of its own"
            );
        }
        let live = Arc::new(Self {
            settings,
            current: ArcSwap::from_pointee(material),
            problem: Mutex::new(None),
            reloads: Counter::default(),
            reload_failures: Counter::default(),
        });
        let reloader = Reloader { live: Arc::clone(&live), last: contents, stage: Stage::Fine };
        Ok((live, reloader))
    }

    fn set_problem(&self, problem: Option<Problem>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Keeps a [`Live`] current.
pub struct Reloader {
    live: Arc<Live>,
    last: Contents,
    stage: Stage,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader").field("live", &self.live).finish_non_exhaustive()
    }
}

impl Reloader {
    /// Looks at the files every so often until we drain.
    pub async fn run(mut self, every: Duration, mut shutdown: Shutdown) {
        loop {
            tokio::select! {
                () = shutdown.reached(Phase::Draining) => return,
                () = tokio::time::sleep(every) => {}
            }
            // Files may lie on storage that hangs; that must not stop the requests.
            let looked = tokio::task::spawn_blocking(move || {
                self.look_once(unix_now());
                self
            });
            match looked.await {
                Ok(reloader) => self = reloader,
                Err(error) => {
                    tracing::error!(%error, "certificates are no longer reloaded");
                    return;
                }
            }
        }
    }

    /// Looks once and acts on it.
    fn look_once(&mut self, now: i64) {
        let live = &self.live;
        let known_problem = live.problem();
        let first = look(&live.settings);
        let second = if first == self.last { first.clone() } else { look(&live.settings) };
        match judge(&self.last, known_problem.is_some(), &first, &second, &live.settings, now) {
            Verdict::Same | Verdict::Settling => {}
            Verdict::Replace(material) => {
                let expires = super::certificate::moment(material.certificate.not_after);
                live.current.store(Arc::new(material));
                live.reloads.increment();
                live.set_problem(None);
                self.last = second;
                tracing::info!(%expires, "took the new certificate files into use");
            }
            Verdict::Keep(problem) => {
                // Said and counted once per change, not once per look.
                if known_problem.as_ref() != Some(&problem) {
                    live.reload_failures.increment();
                    tracing::error!(%problem, "kept the last good certificate");
                }
                live.set_problem(Some(problem));
                self.last = second;
            }
        }
        self.note_stage(now);
    }

    fn note_stage(&mut self, now: i64) {
        let certificate = self.live.certificate();
        let stage = Stage::of(&certificate, now);
        if std::mem::replace(&mut self.stage, stage) == stage {
            return;
        }
        let expires = super::certificate::moment(certificate.not_after);
        match stage {
            Stage::Fine => {}
            Stage::Late => {
                tracing::warn!(%expires, "our certificate is in the last fifth of its life and was not renewed");
            }
            Stage::Expired => {
                tracing::error!(%expires, "our certificate has expired; clients will refuse us until it is renewed");
            }
        }
    }
}

fn look(settings: &Settings) -> Contents {
    Contents {
        certificate: read(&settings.certificate),
        key: read(&settings.key),
        ca: match &settings.clients {
            Clients::Anyone => None,
            Clients::SignedBy { ca, .. } => Some(read(ca)),
        },
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let file = plain::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut contents).map_err(|error| error.to_string())?;
    if contents.len() as u64 > LARGEST_FILE {
        return Err(format!("it is larger than {LARGEST_FILE} bytes"));
    }
    Ok(contents)
}

/// Seconds since 1970 by this machine's clock.
pub fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Protocols;

    /// A self-signed pair that is valid from 2020 to 2030, as certificate and key.
    fn pair() -> (Vec<u8>, Vec<u8>) {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        (certificate.into_bytes(), key.serialize_pem().into_bytes())
    }

    const IN_2019: i64 = 1_546_300_800;
    const IN_2025: i64 = 1_735_689_600;

    fn contents((certificate, key): (Vec<u8>, Vec<u8>)) -> Contents {
        Contents { certificate: Ok(certificate), key: Ok(key), ca: None }
    }

    fn settings(directory: &Path) -> Settings {
        Settings {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
            clients: Clients::Anyone,
            protocols: Protocols::Http1,
        }
    }

    fn judged(last: &Contents, last_was_bad: bool, first: &Contents, second: &Contents, now: i64) -> String {
        match judge(last, last_was_bad, first, second, &settings(Path::new("/certs")), now) {
            Verdict::Same => "same".to_owned(),
            Verdict::Settling => "settling".to_owned(),
            Verdict::Replace(_) => "replace".to_owned(),
            Verdict::Keep(problem) => format!("keep: {problem}"),
        }
    }

    #[test]
    fn files_that_change_while_we_look_are_left_to_settle() {
        let (old, new) = (pair(), pair());
        // The certificate was read before the swap, the key after it.
        let torn = contents((old.0.clone(), new.1.clone()));
        let (old, new) = (contents(old), contents(new));
        assert_eq!(judged(&old, false, &torn, &new, IN_2025), "settling");
        assert_eq!(judged(&old, false, &new, &new, IN_2025), "replace");
        assert_eq!(judged(&old, false, &old, &old, IN_2025), "same");
    }

    #[test]
    fn a_pair_before_its_time_is_taken_when_its_time_comes() {
        let (old, new) = (contents(pair()), contents(pair()));
        let early = "keep: the certificate in /certs/tls.crt is not valid before 2020-01-01T00:00:00Z; is the clock right?";
        assert_eq!(judged(&old, false, &new, &new, IN_2019), early);
        assert_eq!(judged(&new, true, &new, &new, IN_2019), early);
        assert_eq!(judged(&new, true, &new, &new, IN_2025), "replace");
    }

    #[test]
    fn a_pipe_is_refused_at_once_and_so_is_a_directory() {
        let directory = std::env::temp_dir().join(format!("chassis-pipe-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let pipe = directory.join("tls.crt");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let refused = Err("it is not a file".to_owned());
        assert_eq!((read(&pipe), read(&directory)), (refused.clone(), refused));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_bad_pair_is_counted_once_however_often_it_is_looked_at() {
        let directory = std::env::temp_dir().join(format!("chassis-once-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let settings = settings(&directory);
        let good = pair();
        let write = |certificate: &[u8], key: &[u8]| {
            std::fs::write(&settings.certificate, certificate).unwrap();
            std::fs::write(&settings.key, key).unwrap();
        };
        write(&good.0, &good.1);
        let (live, mut reloader) = Live::load(settings.clone(), IN_2025).unwrap();
        write(&good.0, &pair().1);
        for _ in 0..5 {
            reloader.look_once(IN_2025);
        }
        assert_eq!((live.reloads.value(), live.reload_failures.value()), (0, 1));
        write(&good.0, b"");
        for _ in 0..5 {
            reloader.look_once(IN_2025);
        }
        assert_eq!((live.reloads.value(), live.reload_failures.value()), (0, 2));
        write(&good.0, &good.1);
        for _ in 0..5 {
            reloader.look_once(IN_2025);
        }
        assert_eq!((live.reloads.value(), live.reload_failures.value()), (1, 2));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
