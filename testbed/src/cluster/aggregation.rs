//! Aggregated APIs: programs on a loopback port that answer for a whole API group behind the API server.
//!
//! Nothing routes the addresses of services here, and the endpoints of a service may not be loopback addresses. A
//! service of type `ExternalName` needs neither: the API server connects to that name itself.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceSpec, ServiceReference,
};
use kube::api::{Api, PostParams};

use super::{Cluster, ClusterError};
use crate::wait::until;

/// An API group that one of our programs serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedApi {
    /// As in `custom.metrics.k8s.io`.
    pub group: String,
    /// As in `v1beta1`.
    pub version: String,
    /// The namespace of the service that stands for the program.
    pub namespace: String,
    /// The service's name; the program's certificate must be for `SERVICE.NAMESPACE.svc`.
    pub service: String,
    /// Where the program listens on 127.0.0.1.
    pub port: u16,
}

impl Cluster {
    /// Registers an aggregated API, whose certificate is signed by the cluster's authority, and waits until the API
    /// server finds it available.
    ///
    /// The program sees the API server's calls with a client certificate of `pki/front-proxy-ca.crt`.
    pub async fn aggregate(&self, api: &AggregatedApi) -> Result<(), ClusterError> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(api.namespace.clone());
        super::users::create_if_absent(&Api::all(self.client()), &namespace).await?;
        let mut service = Service {
            spec: Some(ServiceSpec {
                type_: Some("ExternalName".to_owned()),
                external_name: Some("localhost".to_owned()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        service.metadata.name = Some(api.service.clone());
        let services: Api<Service> = Api::namespaced(self.client(), &api.namespace);
        services.create(&PostParams::default(), &service).await?;
        let name = format!("{}.{}", api.version, api.group);
        let mut registration = APIService {
            spec: Some(APIServiceSpec {
                group: Some(api.group.clone()),
                version: Some(api.version.clone()),
                group_priority_minimum: 100,
                version_priority: 100,
                ca_bundle: Some(ByteString(self.authority().certificate().into_bytes())),
                service: Some(ServiceReference {
                    name: Some(api.service.clone()),
                    namespace: Some(api.namespace.clone()),
                    port: Some(i32::from(api.port)),
                }),
                ..APIServiceSpec::default()
            }),
            ..APIService::default()
        };
        registration.metadata.name = Some(name.clone());
        let registrations: Api<APIService> = Api::all(self.client());
        registrations.create(&PostParams::default(), &registration).await?;
        until(format!("{name} to be available"), super::start::PATIENCE, || async {
            let found = registrations.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            match conditions.into_iter().find(|condition| condition.type_ == "Available") {
                Some(condition) if condition.status == "True" => Ok(()),
                Some(condition) => Err(condition.message.unwrap_or_default()),
                None => Err("not looked at yet".to_owned()),
            }
        })
        .await?;
        Ok(())
    }
}
