//! The proxy's certificate, from an authority of its own or from the cluster's.

use std::{net::IpAddr, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
};

use crate::cluster::Signer;

/// What clients in and beside the cluster call their API server.
const NAMES: [&str; 6] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot sign the proxy's certificate")]
    Sign(#[from] rcgen::Error),
    #[error("the key of the cluster's authority is not PEM")]
    Key,
    #[error("cannot use the proxy's certificate")]
    Use(#[from] rustls::Error),
}

/// A certificate for `address`; gives the server's settings and the authority's PEM. Without a signer, the authority is
/// new.
pub fn make(address: IpAddr, signer: Option<&Signer>) -> Result<(Arc<ServerConfig>, String), CertificateError> {
    let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    names.push(address.to_string());
    names.dedup();
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name.push(DnType::CommonName, "reconverge proxy");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Strict verifiers (Python from 3.13 on) insist on it.
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    match signer {
        None => {
            let authority = new_authority()?;
            let leaf = leaf.signed_by(&key, &authority)?;
            Ok((settings(vec![leaf.der().clone(), authority.der().clone()], &key)?, authority.pem()))
        }
        Some(signer) => {
            let authority = Issuer::from_ca_cert_pem(&signer.certificate_pem, read_key(&signer.key_pem)?)?;
            let leaf = leaf.signed_by(&key, &authority)?;
            Ok((settings(vec![leaf.der().clone()], &key)?, signer.certificate_pem.clone()))
        }
    }
}

fn new_authority() -> Result<CertifiedIssuer<'static, KeyPair>, CertificateError> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "reconverge proxy authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?)
}

/// An authority's private key. Kubernetes distributions write elliptic keys in their own form (SEC 1, `EC PRIVATE KEY`),
/// which is PKCS #8 without its envelope.
fn read_key(pem: &str) -> Result<KeyPair, CertificateError> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| CertificateError::Key)?;
    let PrivateKeyDer::Sec1(inner) = &key else { return Ok(KeyPair::try_from(&key)?) };
    Ok(KeyPair::try_from(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(in_envelope(inner.secret_sec1_der()))))?)
}

/// PKCS #8 around a P-256 key: version 0, `id-ecPublicKey` with `prime256v1`, and the key as an octet string.
fn in_envelope(sec1: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 24] = [
        0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let inner = [HEAD.to_vec(), der(0x04, sec1)].concat();
    der(0x30, &inner)
}

/// A DER element; lengths up to 65,535 bytes.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut element = match (high, low) {
        (0, short @ ..0x80) => vec![tag, short],
        (0, long) => vec![tag, 0x81, long],
        _ => vec![tag, 0x82, high, low],
    };
    element.extend_from_slice(content);
    element
}

fn settings(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Result<Arc<ServerConfig>, CertificateError> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms that distributions write; and what is neither.
    #[test]
    fn an_authority_of_the_cluster_signs() {
        let authority = new_authority().unwrap();
        let pkcs8 = authority.key().serialize_pem();
        let signer = |key_pem: &str| Signer { certificate_pem: authority.pem(), key_pem: key_pem.to_owned() };
        let address = "172.17.0.1".parse().unwrap();
        let (_, trusted) = make(address, Some(&signer(&pkcs8))).unwrap();
        assert_eq!(trusted, authority.pem());
        // The octet string at the end of PKCS #8 is the key in SEC 1.
        let der = authority.key().serialize_der();
        let start = der.windows(2).position(|pair| pair[0] == 0x04 && usize::from(pair[1]) > 0x60).unwrap() + 2;
        let sec1 = &der[start..start + usize::from(der[start - 1])];
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(sec1);
        let pem = format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n");
        make(address, Some(&signer(&pem))).unwrap();
        assert!(matches!(make(address, Some(&signer("no key"))), Err(CertificateError::Key)));
    }
}
