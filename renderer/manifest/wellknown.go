package manifest

import (
	"slices"
	"strings"
)

// WellKnownScope returns the scope of a kind that a widely used project defines, according to the
// CustomResourceDefinitions of the project's releases, and ScopeUnknown for all others. It is the default for fleets
// that install a project's objects without its definitions; a definition in the fleet and the fleet's Kinds take
// precedence. TestWellKnownScopes compares it with the definitions in the charts that the tests use.
func WellKnownScope(k GroupKind) Scope {
	if k.Group == "constraints.gatekeeper.sh" { // one kind for each ConstraintTemplate
		return ScopeCluster
	}
	g := wellKnown(k.Group)
	switch {
	case slices.Contains(strings.Fields(g.cluster), k.Kind):
		return ScopeCluster
	case slices.Contains(strings.Fields(g.namespaced), k.Kind):
		return ScopeNamespaced
	default:
		return ScopeUnknown
	}
}

// Kinds are the scopes of custom kinds that a fleet declares, each as `Kind.group`.
type Kinds struct {
	Cluster    []string `yaml:"cluster,omitempty" json:"cluster,omitempty"`
	Namespaced []string `yaml:"namespaced,omitempty" json:"namespaced,omitempty"`
}

// Scope returns the declared scope of a kind, or ScopeUnknown.
func (k Kinds) Scope(kind GroupKind) Scope {
	switch name := kind.String(); {
	case slices.Contains(k.Cluster, name):
		return ScopeCluster
	case slices.Contains(k.Namespaced, name):
		return ScopeNamespaced
	default:
		return ScopeUnknown
	}
}

// scopes lists the kinds of one group, separated by spaces.
type scopes struct{ cluster, namespaced string }

// wellKnown lists groups by project. Where two projects share a group, their kinds stand together.
//
//nolint:funlen,gocyclo,maintidx // a table
func wellKnown(group string) scopes {
	switch group {
	// cert-manager, trust-manager, approver-policy
	case "cert-manager.io":
		return scopes{"ClusterIssuer", "Certificate CertificateRequest Issuer"}
	case "acme.cert-manager.io":
		return scopes{"", "Challenge Order"}
	case "trust.cert-manager.io":
		return scopes{"Bundle", ""}
	case "policy.cert-manager.io":
		return scopes{"CertificateRequestPolicy", ""}

	// External Secrets, Sealed Secrets, Vault Secrets Operator, Secrets Store CSI driver, SPIRE
	case "external-secrets.io":
		return scopes{
			"ClusterExternalSecret ClusterPushSecret ClusterSecretStore",
			"ExternalSecret PushSecret SecretStore",
		}
	case "generators.external-secrets.io":
		return scopes{
			"ClusterGenerator",
			"ACRAccessToken ECRAuthorizationToken Fake GCRAccessToken GithubAccessToken Grafana MFA Password QuayAccessToken SSHKey STSSessionToken UUID VaultDynamicSecret Webhook",
		}
	case "bitnami.com":
		return scopes{"", "SealedSecret"}
	case "secrets.hashicorp.com":
		return scopes{"", "HCPAuth HCPVaultSecretsApp SecretTransformation VaultAuth VaultAuthGlobal VaultConnection VaultDynamicSecret VaultPKISecret VaultStaticSecret"}
	case "secrets-store.csi.x-k8s.io":
		return scopes{"", "SecretProviderClass SecretProviderClassPodStatus"}
	case "spire.spiffe.io":
		return scopes{"ClusterFederatedTrustDomain ClusterSPIFFEID ClusterStaticEntry", ""}

	// Kyverno, OPA Gatekeeper, Capsule
	case "kyverno.io":
		return scopes{
			"ClusterCleanupPolicy ClusterPolicy GlobalContextEntry",
			"CleanupPolicy Policy PolicyException UpdateRequest",
		}
	case "policies.kyverno.io":
		return scopes{
			"DeletingPolicy GeneratingPolicy ImageValidatingPolicy MutatingPolicy ValidatingPolicy",
			"NamespacedDeletingPolicy NamespacedGeneratingPolicy NamespacedImageValidatingPolicy NamespacedMutatingPolicy NamespacedValidatingPolicy PolicyException",
		}
	case "wgpolicyk8s.io":
		return scopes{"ClusterPolicyReport", "PolicyReport"}
	case "templates.gatekeeper.sh":
		return scopes{"ConstraintTemplate", ""}
	case "config.gatekeeper.sh":
		return scopes{"", "Config"}
	case "mutations.gatekeeper.sh":
		return scopes{"Assign AssignImage AssignMetadata ModifySet", ""}
	case "externaldata.gatekeeper.sh":
		return scopes{"Provider", ""}
	case "expansion.gatekeeper.sh":
		return scopes{"ExpansionTemplate", ""}
	case "syncset.gatekeeper.sh":
		return scopes{"SyncSet", ""}
	case "capsule.clastix.io":
		return scopes{"CapsuleConfiguration GlobalTenantResource Tenant", "TenantResource"}

	// Istio, Linkerd, Flagger
	case "networking.istio.io":
		return scopes{"", "DestinationRule EnvoyFilter Gateway ProxyConfig ServiceEntry Sidecar VirtualService WorkloadEntry WorkloadGroup"}
	case "security.istio.io":
		return scopes{"", "AuthorizationPolicy PeerAuthentication RequestAuthentication"}
	case "telemetry.istio.io":
		return scopes{"", "Telemetry"}
	case "extensions.istio.io":
		return scopes{"", "WasmPlugin"}
	case "sailoperator.io":
		return scopes{"Istio IstioCNI IstioRevision IstioRevisionTag ZTunnel", ""}
	case "linkerd.io":
		return scopes{"", "ServiceProfile"}
	case "policy.linkerd.io":
		return scopes{"", "AuthorizationPolicy EgressNetwork HTTPLocalRateLimitPolicy HTTPRoute MeshTLSAuthentication NetworkAuthentication Server ServerAuthorization"}
	case "multicluster.linkerd.io":
		return scopes{"", "Link"}
	case "workload.linkerd.io":
		return scopes{"", "ExternalWorkload"}
	case "flagger.app":
		return scopes{"", "AlertProvider Canary MetricTemplate"}

	// Flux, Flux Operator
	case "source.toolkit.fluxcd.io":
		return scopes{"", "Bucket ExternalArtifact GitRepository HelmChart HelmRepository OCIRepository"}
	case "kustomize.toolkit.fluxcd.io":
		return scopes{"", "Kustomization"}
	case "helm.toolkit.fluxcd.io":
		return scopes{"", "HelmRelease"}
	case "notification.toolkit.fluxcd.io":
		return scopes{"", "Alert Provider Receiver"}
	case "image.toolkit.fluxcd.io":
		return scopes{"", "ImagePolicy ImageRepository ImageUpdateAutomation"}
	case "fluxcd.controlplane.io":
		return scopes{"", "FluxInstance FluxReport ResourceSet ResourceSetInputProvider"}

	// Argo CD, Rollouts, Workflows, Events
	case "argoproj.io":
		return scopes{
			"ClusterAnalysisTemplate ClusterWorkflowTemplate",
			"AnalysisRun AnalysisTemplate AppProject Application ApplicationSet CronWorkflow EventBus EventSource Experiment Rollout Sensor " +
				"Workflow WorkflowArtifactGCTask WorkflowEventBinding WorkflowTaskResult WorkflowTaskSet WorkflowTemplate",
		}

	// Crossplane and its providers for Kubernetes and Helm
	case "apiextensions.crossplane.io":
		return scopes{"CompositeResourceDefinition Composition CompositionRevision EnvironmentConfig ManagedResourceActivationPolicy ManagedResourceDefinition Usage", ""}
	case "protection.crossplane.io":
		return scopes{"ClusterUsage", "Usage"}
	case "pkg.crossplane.io":
		return scopes{"Configuration ConfigurationRevision ControllerConfig DeploymentRuntimeConfig Function FunctionRevision ImageConfig Lock Provider ProviderRevision", ""}
	case "ops.crossplane.io":
		return scopes{"CronOperation Operation WatchOperation", ""}
	case "kubernetes.crossplane.io":
		return scopes{"Object ObservedObjectCollection ProviderConfig ProviderConfigUsage", ""}
	case "helm.crossplane.io":
		return scopes{"ProviderConfig ProviderConfigUsage Release", ""}

	// Cluster API and its providers for AWS and vSphere
	case "cluster.x-k8s.io":
		return scopes{"", "Cluster ClusterClass Machine MachineDeployment MachineDrainRule MachineHealthCheck MachinePool MachineSet"}
	case "controlplane.cluster.x-k8s.io":
		return scopes{"", "KubeadmControlPlane KubeadmControlPlaneTemplate"}
	case "bootstrap.cluster.x-k8s.io":
		return scopes{"", "KubeadmConfig KubeadmConfigTemplate"}
	case "addons.cluster.x-k8s.io":
		return scopes{"", "ClusterResourceSet ClusterResourceSetBinding HelmChartProxy HelmReleaseProxy"}
	case "ipam.cluster.x-k8s.io":
		return scopes{"GlobalInClusterIPPool", "IPAddress IPAddressClaim InClusterIPPool"}
	case "runtime.cluster.x-k8s.io":
		return scopes{"ExtensionConfig", ""}
	case "operator.cluster.x-k8s.io":
		return scopes{"", "AddonProvider BootstrapProvider ControlPlaneProvider CoreProvider IPAMProvider InfrastructureProvider RuntimeExtensionProvider"}
	case "infrastructure.cluster.x-k8s.io":
		return scopes{
			"AWSClusterControllerIdentity AWSClusterRoleIdentity AWSClusterStaticIdentity VSphereClusterIdentity VSphereDeploymentZone VSphereFailureDomain",
			"AWSCluster AWSClusterTemplate AWSMachine AWSMachinePool AWSMachineTemplate AWSManagedCluster AWSManagedMachinePool AzureCluster AzureClusterIdentity " +
				"AzureMachine AzureMachineTemplate DockerCluster DockerMachine DockerMachineTemplate VSphereCluster VSphereMachine VSphereMachineTemplate VSphereVM",
		}

	// Prometheus Operator, Grafana Operator, OpenTelemetry Operator, VPA, KEDA
	case "monitoring.coreos.com":
		return scopes{"", "Alertmanager AlertmanagerConfig PodMonitor Probe Prometheus PrometheusAgent PrometheusRule ScrapeConfig ServiceMonitor ThanosRuler"}
	case "grafana.integreatly.org":
		return scopes{"", "Grafana GrafanaAlertRuleGroup GrafanaContactPoint GrafanaDashboard GrafanaDatasource GrafanaFolder GrafanaLibraryPanel GrafanaMuteTiming GrafanaNotificationPolicy GrafanaNotificationTemplate"}
	case "opentelemetry.io":
		return scopes{"", "Instrumentation OpAMPBridge OpenTelemetryCollector TargetAllocator"}
	case "autoscaling.k8s.io":
		return scopes{"", "VerticalPodAutoscaler VerticalPodAutoscalerCheckpoint"}
	case "keda.sh":
		return scopes{"ClusterTriggerAuthentication", "ScaledJob ScaledObject TriggerAuthentication"}
	case "eventing.keda.sh":
		return scopes{"ClusterCloudEventSource", "CloudEventSource"}
	case "http.keda.sh":
		return scopes{"", "HTTPScaledObject"}

	// Gateway API, network policy API, CSI snapshots, node feature discovery, Kueue
	case "gateway.networking.k8s.io":
		return scopes{
			"GatewayClass",
			"BackendLBPolicy BackendTLSPolicy GRPCRoute Gateway HTTPRoute ListenerSet ReferenceGrant TCPRoute TLSRoute UDPRoute",
		}
	case "gateway.networking.x-k8s.io":
		return scopes{"XMesh", "XBackendTrafficPolicy XListenerSet"}
	case "policy.networking.k8s.io":
		return scopes{"AdminNetworkPolicy BaselineAdminNetworkPolicy ClusterNetworkPolicy", ""}
	case "snapshot.storage.k8s.io":
		return scopes{"VolumeSnapshotClass VolumeSnapshotContent", "VolumeSnapshot"}
	case "groupsnapshot.storage.k8s.io":
		return scopes{"VolumeGroupSnapshotClass VolumeGroupSnapshotContent", "VolumeGroupSnapshot"}
	case "nfd.k8s-sigs.io":
		return scopes{"NodeFeatureRule", "NodeFeature"}
	case "kueue.x-k8s.io":
		return scopes{"AdmissionCheck ClusterQueue Cohort MultiKueueCluster MultiKueueConfig ProvisioningRequestConfig ResourceFlavor Topology WorkloadPriorityClass", "LocalQueue Workload"}
	case "externaldns.k8s.io":
		return scopes{"", "DNSEndpoint"}
	case "k8s.cni.cncf.io":
		return scopes{"", "NetworkAttachmentDefinition"}
	case "nvidia.com":
		return scopes{"ClusterPolicy NVIDIADriver", ""}

	// Cilium, Tetragon
	case "cilium.io":
		return scopes{
			"CiliumBGPAdvertisement CiliumBGPClusterConfig CiliumBGPNodeConfig CiliumBGPNodeConfigOverride CiliumBGPPeerConfig CiliumBGPPeeringPolicy CiliumCIDRGroup " +
				"CiliumClusterwideEnvoyConfig CiliumClusterwideNetworkPolicy CiliumEgressGatewayPolicy CiliumEndpointSlice CiliumExternalWorkload CiliumIdentity " +
				"CiliumL2AnnouncementPolicy CiliumLoadBalancerIPPool CiliumNode CiliumPodIPPool TracingPolicy",
			"CiliumEndpoint CiliumEnvoyConfig CiliumGatewayClassConfig CiliumLocalRedirectPolicy CiliumNetworkPolicy CiliumNodeConfig PodInfo TracingPolicyNamespaced",
		}

	// Calico, Tigera operator
	case "crd.projectcalico.org", "projectcalico.org":
		return scopes{
			"BGPConfiguration BGPFilter BGPPeer BlockAffinity CalicoNodeStatus ClusterInformation FelixConfiguration GlobalNetworkPolicy GlobalNetworkSet HostEndpoint " +
				"IPAMBlock IPAMConfig IPAMConfiguration IPAMHandle IPPool IPReservation KubeControllersConfiguration Node Profile Tier",
			"NetworkPolicy NetworkSet",
		}
	case "operator.tigera.io":
		return scopes{"APIServer Goldmane ImageSet Installation TigeraStatus Whisker", ""}

	// MetalLB and FRR
	case "metallb.io":
		return scopes{"", "AddressPool BFDProfile BGPAdvertisement BGPPeer Community ConfigurationState IPAddressPool L2Advertisement ServiceBGPStatus ServiceL2Status"}
	case "frrk8s.metallb.io":
		return scopes{"FRRNodeState", "BGPSessionState FRRConfiguration FRRK8sConfiguration"}

	// Traefik, Contour, Kong, NGINX, AWS load balancers and CNI
	case "traefik.io", "traefik.containo.us":
		return scopes{"", "IngressRoute IngressRouteTCP IngressRouteUDP Middleware MiddlewareTCP ServersTransport ServersTransportTCP TLSOption TLSStore TraefikService"}
	case "hub.traefik.io":
		return scopes{
			"AccessControlPolicy",
			"AIService API APIAuth APIBundle APICatalogItem APIPlan APIPortal APIPortalAuth APIRateLimit APIVersion ContentItem ManagedApplication ManagedSubscription Uplink",
		}
	case "projectcontour.io":
		return scopes{"", "ContourConfiguration ContourDeployment ExtensionService HTTPProxy TLSCertificateDelegation"}
	case "configuration.konghq.com":
		return scopes{
			"KongClusterPlugin KongLicense KongVault",
			"IngressClassParameters KongConsumer KongConsumerGroup KongIngress KongPlugin KongUpstreamPolicy TCPIngress UDPIngress",
		}
	case "k8s.nginx.org":
		return scopes{"", "GlobalConfiguration Policy TransportServer VirtualServer VirtualServerRoute"}
	case "elbv2.k8s.aws":
		return scopes{"IngressClassParams", "TargetGroupBinding"}
	case "vpcresources.k8s.aws":
		return scopes{"CNINode", "SecurityGroupPolicy"}
	case "crd.k8s.amazonaws.com":
		return scopes{"ENIConfig", ""}

	// Karpenter
	case "karpenter.sh":
		return scopes{"Machine NodeClaim NodeOverlay NodePool Provisioner", ""}
	case "karpenter.k8s.aws":
		return scopes{"AWSNodeTemplate EC2NodeClass", ""}
	case "karpenter.azure.com":
		return scopes{"AKSNodeClass", ""}

	// Knative
	case "serving.knative.dev":
		return scopes{"", "Configuration DomainMapping Revision Route Service"}
	case "networking.internal.knative.dev":
		return scopes{"ClusterDomainClaim", "Certificate Ingress ServerlessService"}
	case "eventing.knative.dev":
		return scopes{"", "Broker EventPolicy EventType Trigger"}
	case "messaging.knative.dev":
		return scopes{"", "Channel InMemoryChannel Subscription"}
	case "sources.knative.dev":
		return scopes{"", "ApiServerSource ContainerSource PingSource SinkBinding"}
	case "flows.knative.dev":
		return scopes{"", "Parallel Sequence"}
	case "operator.knative.dev":
		return scopes{"", "KnativeEventing KnativeServing"}

	// Tekton
	case "tekton.dev":
		return scopes{
			"ClusterTask",
			"CustomRun Pipeline PipelineResource PipelineRun Run StepAction Task TaskRun VerificationPolicy",
		}
	case "triggers.tekton.dev":
		return scopes{
			"ClusterInterceptor ClusterTriggerBinding",
			"EventListener Interceptor Trigger TriggerBinding TriggerTemplate",
		}
	case "operator.tekton.dev":
		return scopes{"TektonAddon TektonChain TektonConfig TektonDashboard TektonHub TektonInstallerSet TektonPipeline TektonResult TektonTrigger", ""}

	// Velero, Rook, Longhorn, OpenEBS
	case "velero.io":
		return scopes{"", "Backup BackupRepository BackupStorageLocation DataDownload DataUpload DeleteBackupRequest DownloadRequest PodVolumeBackup PodVolumeRestore Restore Schedule ServerStatusRequest VolumeSnapshotLocation"}
	case "ceph.rook.io":
		return scopes{"", "CephBlockPool CephBlockPoolRadosNamespace CephBucketNotification CephBucketTopic CephCOSIDriver CephClient CephCluster CephFilesystem CephFilesystemMirror " +
			"CephFilesystemSubVolumeGroup CephNFS CephObjectRealm CephObjectStore CephObjectStoreUser CephObjectZone CephObjectZoneGroup CephRBDMirror"}
	case "objectbucket.io":
		return scopes{"ObjectBucket", "ObjectBucketClaim"}
	case "longhorn.io":
		return scopes{"", "BackingImage BackingImageDataSource BackingImageManager Backup BackupBackingImage BackupTarget BackupVolume Engine EngineImage InstanceManager Node Orphan " +
			"RecurringJob Replica Setting ShareManager Snapshot SupportBundle SystemBackup SystemRestore Volume VolumeAttachment"}
	case "openebs.io":
		return scopes{"", "DiskPool"}
	case "local.openebs.io":
		return scopes{"", "LVMNode LVMSnapshot LVMVolume"}
	case "zfs.openebs.io":
		return scopes{"", "ZFSBackup ZFSNode ZFSRestore ZFSSnapshot ZFSVolume"}

	// Strimzi, CloudNativePG, Zalando's Postgres operator, ECK
	case "kafka.strimzi.io":
		return scopes{"", "Kafka KafkaBridge KafkaConnect KafkaConnector KafkaMirrorMaker KafkaMirrorMaker2 KafkaNodePool KafkaRebalance KafkaTopic KafkaUser"}
	case "core.strimzi.io":
		return scopes{"", "StrimziPodSet"}
	case "postgresql.cnpg.io":
		return scopes{
			"ClusterImageCatalog",
			"Backup Cluster Database FailoverQuorum ImageCatalog Pooler Publication ScheduledBackup Subscription",
		}
	case "acid.zalan.do":
		return scopes{"", "OperatorConfiguration PostgresTeam postgresql"}
	case "elasticsearch.k8s.elastic.co":
		return scopes{"", "Elasticsearch"}
	case "kibana.k8s.elastic.co":
		return scopes{"", "Kibana"}

	// KubeVirt, CDI
	case "kubevirt.io":
		return scopes{"", "KubeVirt VirtualMachine VirtualMachineInstance VirtualMachineInstanceMigration VirtualMachineInstancePreset VirtualMachineInstanceReplicaSet"}
	case "instancetype.kubevirt.io":
		return scopes{
			"VirtualMachineClusterInstancetype VirtualMachineClusterPreference",
			"VirtualMachineInstancetype VirtualMachinePreference",
		}
	case "migrations.kubevirt.io":
		return scopes{"MigrationPolicy", ""}
	case "clone.kubevirt.io":
		return scopes{"", "VirtualMachineClone"}
	case "export.kubevirt.io":
		return scopes{"", "VirtualMachineExport"}
	case "pool.kubevirt.io":
		return scopes{"", "VirtualMachinePool"}
	case "snapshot.kubevirt.io":
		return scopes{"", "VirtualMachineRestore VirtualMachineSnapshot VirtualMachineSnapshotContent"}
	case "cdi.kubevirt.io":
		return scopes{
			"CDI CDIConfig ObjectTransfer StorageProfile",
			"DataImportCron DataSource DataVolume VolumeCloneSource VolumeImportSource VolumeUploadSource",
		}

	// Rancher, Fleet, K3s
	case "management.cattle.io":
		return scopes{
			"AuthConfig Cluster Feature GlobalRole GlobalRoleBinding RoleTemplate Setting Token User",
			"ClusterRoleTemplateBinding Project ProjectRoleTemplateBinding",
		}
	case "catalog.cattle.io":
		return scopes{"ClusterRepo", "App Operation UIPlugin"}
	case "fleet.cattle.io":
		return scopes{
			"Content",
			"Bundle BundleDeployment BundleNamespaceMapping Cluster ClusterGroup ClusterRegistration ClusterRegistrationToken GitRepo GitRepoRestriction HelmOp ImageScan",
		}
	case "helm.cattle.io":
		return scopes{"", "HelmChart HelmChartConfig"}
	case "upgrade.cattle.io":
		return scopes{"", "Plan"}
	case "provisioning.cattle.io":
		return scopes{"", "Cluster"}
	case "k3s.cattle.io":
		return scopes{"", "Addon"}

	// Operator Lifecycle Manager, OpenShift
	case "operators.coreos.com":
		return scopes{
			"OLMConfig Operator",
			"CatalogSource ClusterServiceVersion InstallPlan OperatorCondition OperatorGroup Subscription",
		}
	case "security.openshift.io":
		return scopes{"SecurityContextConstraints", ""}
	case "route.openshift.io":
		return scopes{"", "Route"}
	}
	return scopes{}
}
