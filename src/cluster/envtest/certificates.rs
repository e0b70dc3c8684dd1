//! The keys of one control plane: its authority, its serving certificate, and what signs ServiceAccount tokens.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use sha2::{Digest as _, Sha256};

/// By what names an API server is reached; the last one is the first address of the service network.
const NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
];

/// All PEM.
pub(super) struct Certificates {
    pub authority: String,
    pub serving: String,
    pub serving_key: String,
    pub accounts_key: String,
    /// What verifies them.
    pub accounts_public: String,
}

/// Makes new ones.
pub(super) fn make() -> Result<Certificates, rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "reconverge control plane authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut leaf = CertificateParams::new(NAMES.map(str::to_owned))?;
    leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Strict verifiers (Python from 3.13 on) insist on it.
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let leaf = leaf.signed_by(&key, &authority)?;
    let accounts = KeyPair::generate()?;
    Ok(Certificates {
        authority: authority.pem(),
        serving: leaf.pem(),
        serving_key: key.serialize_pem(),
        accounts_key: accounts.serialize_pem(),
        accounts_public: accounts.public_key_pem(),
    })
}

/// A bearer token that nobody can guess: a new private key's digest. Faults and plans do not depend on it, so it need
/// not come from a seed.
pub(super) fn token() -> Result<String, rcgen::Error> {
    let digest = Sha256::digest(KeyPair::generate()?.serialize_der());
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
