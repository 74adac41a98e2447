//! How others come in: kubeconfigs for users and service accounts, with exactly the rights they are given.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::start::client_of;
use super::{Cluster, ClusterError};
use crate::access::{Credentials, kubeconfig};
use crate::pki;

impl Cluster {
    /// A kubeconfig for a user with a client certificate; rights come from RBAC objects that name the user or group.
    pub fn user(&self, user: &str, group: Option<&str>) -> Result<PathBuf, ClusterError> {
        let leaf = self.authority().client(user, group)?;
        let file = file_name(user);
        let (certificate, key) = pki::keep(&self.directory().join("pki"), &file, &leaf)?;
        self.keep_kubeconfig(&file, &Credentials::Certificate { certificate, key })
    }

    /// A kubeconfig for a service account, which is made (with its namespace) if it is not there.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<PathBuf, ClusterError> {
        let mut space = Namespace::default();
        space.metadata.name = Some(namespace.to_owned());
        create_if_absent(&Api::all(self.client()), &space).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(name.to_owned());
        create_if_absent(&accounts, &account).await?;
        let spec = TokenRequestSpec { expiration_seconds: Some(24 * 3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let token = answer.status.map(|status| status.token).unwrap_or_default();
        self.keep_kubeconfig(&format!("{namespace}-{name}"), &Credentials::Token(token))
    }

    /// Gives a user (`alice`) or a service account (`system:serviceaccount:NAMESPACE:NAME`) these rights everywhere.
    pub async fn grant(&self, user: &str, rules: Vec<PolicyRule>) -> Result<(), ClusterError> {
        let name = format!("testbed:{user}");
        let mut role = ClusterRole { rules: Some(rules), ..ClusterRole::default() };
        role.metadata.name = Some(name.clone());
        Api::all(self.client()).create(&PostParams::default(), &role).await?;
        let group = "rbac.authorization.k8s.io".to_owned();
        let mut binding = ClusterRoleBinding {
            role_ref: RoleRef {
                api_group: group.clone(),
                kind: "ClusterRole".to_owned(),
                name: name.clone(),
            },
            // To RBAC a service account is a user with a long name.
            subjects: Some(vec![Subject {
                api_group: Some(group),
                kind: "User".to_owned(),
                name: user.to_owned(),
                namespace: None,
            }]),
            ..ClusterRoleBinding::default()
        };
        binding.metadata.name = Some(name);
        Api::all(self.client()).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    /// A client that comes in with one of these kubeconfigs.
    pub async fn client_of(&self, kubeconfig: &Path) -> Result<Client, ClusterError> {
        client_of(kubeconfig).await
    }

    fn keep_kubeconfig(&self, file: &str, credentials: &Credentials) -> Result<PathBuf, ClusterError> {
        let layout = self.layout();
        let text = kubeconfig(&layout.api_url(), &layout.pki("ca.crt"), credentials);
        let path = layout.kubeconfig(file);
        pki::keep_secret(&path, &text)?;
        Ok(path)
    }
}

pub(super) async fn create_if_absent<K>(api: &Api<K>, object: &K) -> Result<(), ClusterError>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// `system:node:a` is a user but no file.
fn file_name(user: &str) -> String {
    user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
