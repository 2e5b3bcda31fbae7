//! Tests of https: against a server whose certificate is made here, so that no key lies in the repository.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::super::client::{Client, ClientSettings};
use super::super::test_server::TestServer;
use super::*;

/// One DER value: tag, length in its shortest form (X.690 section 10.1), content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let head = match (high, low) {
        (0, ..0x80) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head, content].concat()
}

/// A self-signed Ed25519 certificate for 127.0.0.1 (RFC 5280, RFC 8410), and its key.
fn certificate() -> (Vec<u8>, Vec<u8>) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let bits = |bytes: &[u8]| der(0x03, &[&[0], bytes].concat());
    let algorithm = der(0x30, &[0x06, 0x03, 0x2b, 0x65, 0x70]);
    let common_name = der(0x30, &[vec![0x06, 0x03, 0x55, 0x04, 0x03], der(0x0c, b"test")].concat());
    let name = der(0x30, &der(0x31, &common_name));
    let validity = [der(0x17, b"200101000000Z"), der(0x18, b"21200101000000Z")].concat();
    let public = [algorithm.clone(), bits(key.public_key().as_ref())].concat();
    let alternative = der(0x30, &der(0x87, &[127, 0, 0, 1]));
    let extension = [vec![0x06, 0x03, 0x55, 0x1d, 0x11], der(0x04, &alternative)].concat();
    let extensions = der(0xa3, &der(0x30, &der(0x30, &extension)));
    let body = [
        der(0xa0, &[0x02, 0x01, 0x02]),
        vec![0x02, 0x01, 0x01],
        algorithm.clone(),
        name.clone(),
        der(0x30, &validity),
        name,
        der(0x30, &public),
        extensions,
    ];
    let signed = der(0x30, &body.concat());
    let whole = [signed.clone(), algorithm, bits(key.sign(&signed).as_ref())].concat();
    (der(0x30, &whole), pkcs8.as_ref().to_vec())
}

/// Serves `connections` connections, each with one answer where the handshake succeeds; gives address and PEM.
fn https_server(connections: usize) -> (String, String) {
    let (certificate, key) = certificate();
    let pem = STANDARD.encode(&certificate);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate)], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            if stream.read(&mut [0; 4096]).is_ok() {
                let body = r#"{"principal":{"id":"00000000-0000-0000-0000-000000000000","kind":"agent","display_name":"R"}}"#;
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        }
    });
    (address, pem)
}

#[test]
fn https_trusts_the_ca_file_and_nothing_unknown() {
    let (address, pem) = https_server(2);
    let secrets = TestServer::start(Vec::new());
    let path = secrets.path("ca.pem");
    std::fs::write(&path, pem).unwrap();
    let trusting = ClientSettings {
        server_url: address,
        ca_file: Some(path),
        retry_max_attempts: 1,
        ..secrets.settings()
    };
    let client = Client::new(trusting.clone()).unwrap();
    assert!(client.get_me().is_ok());
    let (_, other) = https_server(0);
    std::fs::write(secrets.path("other.pem"), other).unwrap();
    let doubting = ClientSettings { ca_file: Some(secrets.path("other.pem")), ..trusting };
    assert_eq!(Client::new(doubting).unwrap().get_me(), Err(TransportError::Connect.into()));
}

#[test]
fn a_ca_file_must_hold_a_certificate() {
    let secrets = TestServer::start(Vec::new());
    let missing = Roots::new(Some(secrets.path("ca.pem")));
    assert_eq!(missing.config().err(), Some(TransportError::Connect));
    std::fs::write(secrets.path("ca.pem"), "no certificate here\n").unwrap();
    assert_eq!(missing.config().err(), Some(TransportError::Connect));
    assert!(!missing.loaded());
}
