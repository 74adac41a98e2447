//! TLS, client certificates and users from a web configuration, and their reload.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::started::{Reply, Started};

/// `Basic alice:secret` and `Basic alice:other`.
const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
const ALICE_WITH_OTHER: &str = "Authorization: Basic YWxpY2U6b3RoZXI=\r\n";

fn users(password: &str) -> String {
    format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash(password, 4).expect("hashing works"))
}

#[test]
fn without_the_password_there_is_nothing_and_a_new_one_holds_at_once() {
    let agent = Started::on(&["--web-config={}/web.yml"], |tree| {
        tree.proc(2, 1).write("web.yml", users("secret"));
    });
    let refused = agent.get("/metrics", "");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Basic")));
    assert!(!refused.text().contains("node_"));
    assert_eq!(agent.get("/metrics", ALICE_WITH_OTHER).status, 401);
    assert_eq!(agent.get("/metrics", ALICE).status, 200);
    agent.tree.write("web.yml", users("other"));
    agent.signal("HUP");
    agent.logged("web configuration read again");
    assert_eq!((agent.get("/", ALICE).status, agent.get("/", ALICE_WITH_OTHER).status), (401, 200));
    // A broken file opens no door.
    agent.tree.write("web.yml", "basic_auth_users: 7\n");
    agent.signal("HUP");
    agent.logged("web configuration not taken over");
    assert_eq!((agent.get("/", "").status, agent.get("/", ALICE_WITH_OTHER).status), (401, 200));
}

#[test]
fn an_emptied_file_ends_no_protection_and_an_intended_end_does() {
    let agent = Started::on(&["--web-config={}/web.yml"], |tree| {
        tree.proc(2, 1).write("web.yml", users("secret"));
    });
    for (emptied, said) in [("", "not taken over"), (" \n", "not taken over"), ("{}", "read again")] {
        agent.tree.write("web.yml", emptied);
        agent.signal("HUP");
        if emptied != " \n" {
            // The same trouble is told once.
            agent.logged(&format!("web configuration {said}"));
        }
        let expected = if emptied == "{}" { 200 } else { 401 };
        assert_eq!(agent.get("/", "").status, expected, "{emptied:?}");
    }
}

#[test]
fn files_that_hang_keep_nobody_from_being_served_or_from_leaving() {
    let ours = authority();
    let server = pair(&ours, "n1", ExtendedKeyUsagePurpose::ServerAuth);
    let mut agent = Started::on(&["--web-config={}/web.yml"], |tree| {
        tree.proc(2, 1).write("web.yml", TLS);
        write_pair(tree.root(), &server);
    });
    for file in ["tls.key", "web.yml"] {
        fs::remove_file(agent.tree.root().join(file)).expect("ours");
        let made = std::process::Command::new("mkfifo").arg(agent.tree.root().join(file)).status();
        assert!(made.expect("mkfifo runs").success());
    }
    agent.signal("HUP");
    agent.logged("web configuration not taken over");
    assert_eq!(ask_with_tls(&agent, &ours, None).status, 200);
    agent.signal("TERM");
    assert_eq!(agent.wait(), Some(0));
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let pem = parameters.self_signed(&key).expect("a certificate").pem();
    Authority { pem, issuer: Issuer::new(parameters, key) }
}

/// A certificate for `name` and its key.
fn pair(authority: &Authority, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    parameters.extended_key_usages = vec![usage];
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, &authority.issuer).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

fn ask_with_tls(agent: &Started, authority: &Authority, client: Option<&(String, String)>) -> Reply {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM")).expect("a CA");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match client {
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("n1").expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = rustls::StreamOwned::new(connection, agent.connect());
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n");
    Reply::read(&mut stream)
}

fn write_pair(root: &Path, (certificate, key): &(String, String)) {
    fs::write(root.join("tls.crt"), certificate).expect("ours");
    fs::write(root.join("tls.key"), key).expect("ours");
}

const TLS: &str = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n";
const MUTUAL: &str = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";

#[test]
fn tls_can_be_turned_on_and_made_mutual_while_it_serves() {
    let ours = authority();
    let server = pair(&ours, "n1", ExtendedKeyUsagePurpose::ServerAuth);
    let client = pair(&ours, "prometheus", ExtendedKeyUsagePurpose::ClientAuth);
    let agent = Started::on(&["--web-config={}/web.yml"], |tree| {
        tree.proc(2, 1).write("web.yml", TLS).write("ca.crt", &ours.pem);
        write_pair(tree.root(), &server);
    });
    assert_ne!(agent.get("/metrics", "").status, 200, "plain HTTP is not spoken");
    let reply = ask_with_tls(&agent, &ours, None);
    assert!(reply.status == 200 && reply.text().contains("node_load1"), "{}", reply.head);

    agent.tree.write("web.yml", MUTUAL);
    agent.signal("HUP");
    agent.logged("web configuration read again");
    assert_ne!(ask_with_tls(&agent, &ours, None).status, 200, "nobody without a certificate");
    let strangers = authority();
    let stranger = pair(&strangers, "prometheus", ExtendedKeyUsagePurpose::ClientAuth);
    assert_ne!(ask_with_tls(&agent, &ours, Some(&stranger)).status, 200, "nor with somebody else's");
    assert_eq!(ask_with_tls(&agent, &ours, Some(&client)).status, 200);

    // Files that cannot serve change nothing.
    agent.tree.write("web.yml", MUTUAL.replace("tls.key", "ca.crt"));
    agent.signal("HUP");
    agent.logged("web configuration not taken over");
    assert_eq!(ask_with_tls(&agent, &ours, Some(&client)).status, 200);
}
