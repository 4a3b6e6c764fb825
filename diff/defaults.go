package diff

import (
	"math"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setDefaults sets the fields that the API server sets in a new object that lacks them. The source is Kubernetes 1.36,
// pkg/apis/*/v1/defaults.go; TestAPIServerDefaults compares it with an API server. A default that is missing here shows
// as a change; one that the API server does not have would hide a change. So fields whose default depends on feature gates or on the cluster are not here, and neither are
// replicas and suspend: where Git does not set them, an autoscaler or a person usually does, and writing the default
// takes them over.
func setDefaults(o runtime.Object) {
	switch x := o.(type) {
	case *appsv1.Deployment:
		defaultDeployment(&x.Spec)
	case *appsv1.DaemonSet:
		defaultDaemonSet(&x.Spec)
	case *appsv1.StatefulSet:
		defaultStatefulSet(&x.Spec)
	case *appsv1.ReplicaSet:
		defaultPod(&x.Spec.Template.Spec)
	case *batchv1.Job:
		defaultJob(&x.Spec)
	case *batchv1.CronJob:
		empty(&x.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		unset(&x.Spec.SuccessfulJobsHistoryLimit, 3)
		unset(&x.Spec.FailedJobsHistoryLimit, 1)
		// The API server fills in a Job when the controller creates it; of the template it stores only the pod's
		// defaults.
		defaultPod(&x.Spec.JobTemplate.Spec.Template.Spec)
	case *corev1.Pod:
		defaultPod(&x.Spec)
		unset(&x.Spec.EnableServiceLinks, true)
		if x.Spec.HostNetwork {
			defaultHostPorts(x.Spec.InitContainers)
			defaultHostPorts(x.Spec.Containers)
		}
	case *corev1.PodTemplate:
		defaultPod(&x.Template.Spec)
	case *corev1.ReplicationController:
		if x.Spec.Template != nil {
			defaultPod(&x.Spec.Template.Spec)
		}
	case *corev1.Service:
		defaultService(&x.Spec)
	case *corev1.Secret:
		empty(&x.Type, corev1.SecretTypeOpaque)
	case *corev1.PersistentVolume:
		empty(&x.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		unset(&x.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *corev1.PersistentVolumeClaim:
		unset(&x.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	default:
		setOtherDefaults(o)
	}
}

// setOtherDefaults sets the defaults of kinds that run no pods and hold no data.
func setOtherDefaults(o runtime.Object) {
	switch x := o.(type) {
	case *networkingv1.NetworkPolicy:
		defaultNetworkPolicy(&x.Spec)
	case *networkingv1.IngressClass:
		if x.Spec.Parameters != nil {
			unset(&x.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	case *rbacv1.RoleBinding:
		empty(&x.RoleRef.APIGroup, rbacv1.GroupName)
		defaultSubjects(x.Subjects)
	case *rbacv1.ClusterRoleBinding:
		empty(&x.RoleRef.APIGroup, rbacv1.GroupName)
		defaultSubjects(x.Subjects)
	case *storagev1.StorageClass:
		unset(&x.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		unset(&x.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *storagev1.CSIDriver:
		unset(&x.Spec.AttachRequired, true)
		unset(&x.Spec.PodInfoOnMount, false)
		unset(&x.Spec.StorageCapacity, false)
		unset(&x.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		unset(&x.Spec.RequiresRepublish, false)
		if len(x.Spec.VolumeLifecycleModes) == 0 {
			x.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	case *schedulingv1.PriorityClass:
		unset(&x.PreemptionPolicy, corev1.PreemptLowerPriority)
	case *autoscalingv2.HorizontalPodAutoscaler:
		unset(&x.Spec.MinReplicas, 1)
		defaultBehavior(x.Spec.Behavior)
	case *corev1.Endpoints: //nolint:staticcheck // people still have it in Git
		for i := range x.Subsets {
			for k := range x.Subsets[i].Ports {
				empty(&x.Subsets[i].Ports[k].Protocol, corev1.ProtocolTCP)
			}
		}
	case *resourcev1.ResourceClaim:
		defaultDevices(&x.Spec)
	case *resourcev1.ResourceClaimTemplate:
		defaultDevices(&x.Spec.Spec)
	case *admissionv1.ValidatingAdmissionPolicy:
		if m := x.Spec.MatchConstraints; m != nil {
			unset(&m.MatchPolicy, admissionv1.Equivalent)
			unset(&m.NamespaceSelector, metav1.LabelSelector{})
			unset(&m.ObjectSelector, metav1.LabelSelector{})
			for i := range m.ResourceRules {
				unset(&m.ResourceRules[i].Scope, admissionv1.AllScopes)
			}
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range x.Webhooks {
			w := &x.Webhooks[i]
			defaultWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.NamespaceSelector, &w.ObjectSelector,
				w.ClientConfig.Service, w.Rules)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range x.Webhooks {
			w := &x.Webhooks[i]
			defaultWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds, &w.NamespaceSelector, &w.ObjectSelector,
				w.ClientConfig.Service, w.Rules)
			unset(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	}
}

// defaultBehavior sets what an autoscaler with a behavior has for each direction.
func defaultBehavior(b *autoscalingv2.HorizontalPodAutoscalerBehavior) {
	if b == nil {
		return
	}
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	unset(&b.ScaleUp, autoscalingv2.HPAScalingRules{})
	unset(&b.ScaleUp.StabilizationWindowSeconds, 0)
	unset(&b.ScaleDown, autoscalingv2.HPAScalingRules{})
	for rules, policies := range map[*autoscalingv2.HPAScalingRules][]autoscalingv2.HPAScalingPolicy{
		b.ScaleUp: {pods, percent}, b.ScaleDown: {percent},
	} {
		unset(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
		if len(rules.Policies) == 0 {
			rules.Policies = policies
		}
	}
}

func defaultDevices(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		if e := s.Devices.Requests[i].Exactly; e != nil {
			empty(&e.AllocationMode, resourcev1.DeviceAllocationModeExactCount)
			if e.AllocationMode == resourcev1.DeviceAllocationModeExactCount {
				empty(&e.Count, 1)
			}
		}
	}
}

// unset sets a field that is nil.
func unset[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// empty sets a field that has its zero value.
func empty[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func defaultDeployment(s *appsv1.DeploymentSpec) {
	unset(&s.RevisionHistoryLimit, 10)
	unset(&s.ProgressDeadlineSeconds, 600)
	empty(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		unset(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		unset(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		unset(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	defaultPod(&s.Template.Spec)
}

func defaultDaemonSet(s *appsv1.DaemonSetSpec) {
	unset(&s.RevisionHistoryLimit, 10)
	empty(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		unset(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		unset(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		unset(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultPod(&s.Template.Spec)
}

func defaultStatefulSet(s *appsv1.StatefulSetSpec) {
	unset(&s.RevisionHistoryLimit, 10)
	empty(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		unset(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && s.UpdateStrategy.RollingUpdate != nil {
		unset(&s.UpdateStrategy.RollingUpdate.Partition, 0)
	}
	unset(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	empty(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	empty(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range s.VolumeClaimTemplates {
		t := &s.VolumeClaimTemplates[i]
		unset(&t.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		empty(&t.APIVersion, "v1")
		empty(&t.Kind, "PersistentVolumeClaim")
		empty(&t.Status.Phase, corev1.ClaimPending)
	}
	defaultPod(&s.Template.Spec)
}

func defaultJob(s *batchv1.JobSpec) {
	if s.Completions == nil && s.Parallelism == nil {
		unset(&s.Completions, 1)
	}
	unset(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		unset(&s.BackoffLimit, math.MaxInt32)
	}
	unset(&s.BackoffLimit, 6)
	unset(&s.CompletionMode, batchv1.NonIndexedCompletion)
	unset(&s.ManualSelector, false)
	defaultPod(&s.Template.Spec)
}

func defaultPod(s *corev1.PodSpec) {
	empty(&s.DNSPolicy, corev1.DNSClusterFirst)
	empty(&s.RestartPolicy, corev1.RestartPolicyAlways)
	empty(&s.SchedulerName, corev1.DefaultSchedulerName)
	empty(&s.DeprecatedServiceAccount, s.ServiceAccountName)
	unset(&s.SecurityContext, corev1.PodSecurityContext{})
	unset(&s.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i].VolumeSource)
	}
}

// defaultHostPorts sets the ports of a Pod in the network of its node. The API server does not do it in templates of
// pods.
func defaultHostPorts(containers []corev1.Container) {
	for _, c := range containers {
		for i := range c.Ports {
			empty(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
}

func defaultContainer(c *corev1.Container) {
	empty(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	empty(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	empty(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		empty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			empty(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		empty(&p.TimeoutSeconds, 1)
		empty(&p.PeriodSeconds, 10)
		empty(&p.SuccessThreshold, 1)
		empty(&p.FailureThreshold, 3)
		defaultHTTP(p.HTTPGet)
		if p.GRPC != nil {
			unset(&p.GRPC.Service, "")
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTP(h.HTTPGet)
			}
		}
	}
}

func defaultHTTP(a *corev1.HTTPGetAction) {
	if a != nil {
		empty(&a.Path, "/")
		empty(&a.Scheme, corev1.URISchemeHTTP)
	}
}

// pullPolicy returns the policy for an image without one: Always for the tag latest, which is also that of an image
// without tag and digest.
func pullPolicy(image string) corev1.PullPolicy {
	tag := SplitImage(image).Tag
	if tag == "latest" || tag == "" && !strings.Contains(image, "@") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultVolume(v *corev1.VolumeSource) {
	if v.ConfigMap != nil {
		unset(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.Secret != nil {
		unset(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		unset(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultFieldRefs(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		unset(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		unset(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
	if v.Projected == nil {
		return
	}
	unset(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range v.Projected.Sources {
		if t := v.Projected.Sources[i].ServiceAccountToken; t != nil {
			unset(&t.ExpirationSeconds, 3600)
		}
		if d := v.Projected.Sources[i].DownwardAPI; d != nil {
			defaultFieldRefs(d.Items)
		}
	}
}

func defaultFieldRefs(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			empty(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}

func defaultService(s *corev1.ServiceSpec) {
	empty(&s.Type, corev1.ServiceTypeClusterIP)
	empty(&s.SessionAffinity, corev1.ServiceAffinityNone)
	if s.SessionAffinity == corev1.ServiceAffinityClientIP && s.SessionAffinityConfig == nil {
		timeout := corev1.DefaultClientIPServiceAffinitySeconds
		client := &corev1.ClientIPConfig{TimeoutSeconds: &timeout}
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: client}
	}
	for i := range s.Ports {
		empty(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		if t := &s.Ports[i].TargetPort; *t == intstr.FromInt32(0) || *t == intstr.FromString("") {
			*t = intstr.FromInt32(s.Ports[i].Port)
		}
	}
	switch s.Type {
	case corev1.ServiceTypeLoadBalancer:
		unset(&s.AllocateLoadBalancerNodePorts, true)
		fallthrough
	case corev1.ServiceTypeNodePort:
		empty(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
		fallthrough
	case corev1.ServiceTypeClusterIP:
		if len(s.ExternalIPs) > 0 {
			empty(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
		}
		unset(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	case corev1.ServiceTypeExternalName: // has neither
	}
}

func defaultNetworkPolicy(s *networkingv1.NetworkPolicySpec) {
	if len(s.PolicyTypes) == 0 {
		s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(s.Egress) > 0 {
			s.PolicyTypes = append(s.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			unset(&list[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range s.Ingress {
		ports(s.Ingress[i].Ports)
	}
	for i := range s.Egress {
		ports(s.Egress[i].Ports)
	}
}

func defaultSubjects(list []rbacv1.Subject) {
	for i := range list {
		if s := &list[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			empty(&s.APIGroup, rbacv1.GroupName)
		}
	}
}

func defaultWebhook(failure **admissionv1.FailurePolicyType, match **admissionv1.MatchPolicyType, timeout **int32,
	namespaces, objects **metav1.LabelSelector, service *admissionv1.ServiceReference,
	rules []admissionv1.RuleWithOperations,
) {
	unset(failure, admissionv1.Fail)
	unset(match, admissionv1.Equivalent)
	unset(timeout, 10)
	unset(namespaces, metav1.LabelSelector{})
	unset(objects, metav1.LabelSelector{})
	if service != nil {
		unset(&service.Port, 443)
	}
	for i := range rules {
		unset(&rules[i].Scope, admissionv1.AllScopes)
	}
}
