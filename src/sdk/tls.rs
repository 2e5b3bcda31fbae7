//! The trusted roots of https: the platform's and `sdk.ca_file`, in one list, loaded at the first need.
//!
//! A runner that talks to a loopback server over http never loads them (memory and start time).

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::error::TransportError;

/// Loads the roots once and shares them among all agents of a runner.
pub(super) struct Roots {
    ca_file: Option<PathBuf>,
    config: OnceLock<TlsConfig>,
}

impl Roots {
    /// Nothing is read yet.
    pub fn new(ca_file: Option<PathBuf>) -> Roots {
        Roots { ca_file, config: OnceLock::new() }
    }

    /// The TLS settings, with ring given explicitly so that no other provider can slip in.
    ///
    /// # Errors
    /// [`TransportError::Connect`] when `sdk.ca_file` cannot be read or nothing is trusted at all.
    pub fn config(&self) -> Result<TlsConfig, TransportError> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = self.own_roots()?;
        let platform = rustls_native_certs::load_native_certs().certs;
        roots.extend(platform.iter().map(|der| Certificate::from_der(der).to_owned()));
        if roots.is_empty() {
            log::error!("code=no_trusted_roots");
            return Err(TransportError::Connect);
        }
        let config = TlsConfig::builder()
            .root_certs(RootCerts::from(roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        Ok(self.config.get_or_init(|| config).clone())
    }

    /// The certificates of `sdk.ca_file`; a file with nothing usable in it is an error, not a silence.
    fn own_roots(&self) -> Result<Vec<Certificate<'static>>, TransportError> {
        let Some(path) = &self.ca_file else { return Ok(Vec::new()) };
        let pem = std::fs::read(path).map_err(|_| unusable_ca_file())?;
        let mut roots = Vec::new();
        for item in parse_pem(&pem) {
            if let PemItem::Certificate(certificate) = item.map_err(|_| unusable_ca_file())? {
                roots.push(certificate);
            }
        }
        if roots.is_empty() { Err(unusable_ca_file()) } else { Ok(roots) }
    }

    /// Whether `sdk.ca_file` is set.
    pub fn has_file(&self) -> bool {
        self.ca_file.is_some()
    }

    /// Whether the roots were loaded already.
    #[cfg(test)]
    pub fn loaded(&self) -> bool {
        self.config.get().is_some()
    }
}

fn unusable_ca_file() -> TransportError {
    log::error!("code=ca_file_unusable");
    TransportError::Connect
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
