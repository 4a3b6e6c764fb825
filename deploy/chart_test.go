package deploy_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// typed are the kinds of the chart's objects as Kubernetes' own types: an unknown field is an error.
func typed(kind string) any {
	return map[string]any{
		"StatefulSet": &appsv1.StatefulSet{}, "Deployment": &appsv1.Deployment{}, "ConfigMap": &corev1.ConfigMap{},
		"Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
		"Ingress": &networkingv1.Ingress{}, "NetworkPolicy": &networkingv1.NetworkPolicy{},
		"PodDisruptionBudget":     &policyv1.PodDisruptionBudget{},
		"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{},
	}[kind]
}

// rendered returns a mode's objects by kind.
func rendered(t *testing.T, fleet, mode string) map[string]any {
	t.Helper()
	text, problems, err := sluice(t, fleet, nil, "render", "--cluster", mode)
	if err != nil {
		t.Fatalf("%s: the error is %v: the problems are %s", mode, err, problems)
	}
	out := map[string]any{}
	for _, doc := range documents(t, text) {
		kind := fmt.Sprint(doc["kind"])
		if out[kind] != nil {
			t.Errorf("%s: two objects of the kind %s", mode, kind)
		}
		object := typed(kind)
		if object == nil {
			out[kind] = doc
			continue
		}
		data, err := yaml.Marshal(doc)
		if err == nil {
			err = yaml.UnmarshalStrict(data, object)
		}
		if err != nil {
			t.Errorf("%s: the kind is %s: the error is %v", mode, kind, err)
		}
		out[kind] = object
	}
	return out
}

func get[T any](t *testing.T, objects map[string]any, kind string) *T {
	t.Helper()
	object, ok := objects[kind].(*T)
	if !ok {
		t.Fatalf("there is no %s, but %v", kind, slices.Sorted(maps.Keys(objects)))
	}
	return object
}

func TestChart(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t)
	out, problems, err := sluice(t, fleet, nil, "check", "--offline", "--strict")
	if err != nil || !strings.Contains(out, "2 targets checked, 0 errors, 0 warnings") {
		t.Errorf("sluice check: %v\n%s%s", err, out, problems)
	}
	want := map[string][]string{
		"single": {
			"ConfigMap", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount",
			"ServiceMonitor", "StatefulSet",
		},
		"replicas": {
			"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
			"Service", "ServiceAccount",
		},
	}
	for _, mode := range modes() {
		objects := rendered(t, fleet, mode)
		if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, want[mode]) {
			t.Errorf("%s: the objects are %v, want %v", mode, got, want[mode])
		}
		var pod corev1.PodSpec
		if mode == "single" {
			s := get[appsv1.StatefulSet](t, objects, "StatefulSet").Spec
			if pod = s.Template.Spec; *s.Replicas != 1 || len(s.VolumeClaimTemplates) != 1 ||
				s.VolumeClaimTemplates[0].Name != "data" {
				t.Errorf("single: %+v", s)
			}
		} else {
			d := get[appsv1.Deployment](t, objects, "Deployment").Spec
			if pod = d.Template.Spec; d.Replicas != nil {
				t.Error("replicas: the number of pods is the autoscaler's to set")
			}
			autoscaled(t, get[autoscalingv2.HorizontalPodAutoscaler](t, objects, "HorizontalPodAutoscaler"))
		}
		restricted(t, mode, &pod)
		probed(t, mode, &pod)
		configured(t, mode, &pod, get[corev1.ConfigMap](t, objects, "ConfigMap").Data["config.yaml"])
		if account := get[corev1.ServiceAccount](t, objects,
			"ServiceAccount"); account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("%s: the service account has a token", mode)
		}
		network(t, mode, get[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy"))
	}
}

// restricted checks the Pod Security Standard of that name, and that the root file system is read-only.
func restricted(t *testing.T, mode string, pod *corev1.PodSpec) {
	t.Helper()
	s := pod.SecurityContext
	if s == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.FSGroup != 65532 ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
		t.Errorf("%s: the pod is %+v", mode, pod)
	}
	c := pod.Containers[0]
	if x := c.SecurityContext; *x.AllowPrivilegeEscalation || !*x.ReadOnlyRootFilesystem ||
		fmt.Sprint(x.Capabilities.Drop, x.Capabilities.Add) != "[ALL] []" {
		t.Errorf("%s: the security context is %+v", mode, x)
	}
	writable := []string{}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			writable = append(writable, m.MountPath)
		}
	}
	if slices.Sort(writable); !slices.Equal(writable, []string{"/tmp", "/var/lib/sluice"}) {
		t.Errorf("%s: writable: %v", mode, writable)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil || v.Name == "tmp" && v.EmptyDir == nil ||
			v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s: volume %+v", mode, v)
		}
	}
}

func probed(t *testing.T, mode string, pod *corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.StartupProbe.HTTPGet.Path != "/healthz" ||
		c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("%s: probes %+v", mode, c)
	}
	const drain = 120 // seconds, the default
	if *pod.TerminationGracePeriodSeconds <= drain {
		t.Errorf("%s: the pod is killed after %d seconds, while the service may drain for %d", mode,
			*pod.TerminationGracePeriodSeconds, drain)
	}
}

// configured checks the configuration with the service. The pod mounts every file that it names.
func configured(t *testing.T, mode string, pod *corev1.PodSpec, config string) {
	t.Helper()
	if err := serveCheck(t, config); err != nil {
		t.Errorf("%s: the error is %v\nthe config is\n%s", mode, err, config)
	}
	files := 0
	for line := range strings.Lines(config) {
		_, name, ok := strings.Cut(strings.TrimSpace(line), ": "+mounted)
		if !ok {
			continue
		}
		files++
		folder := mounted + filepath.Dir(name)
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == folder }) {
			t.Errorf("%s: nothing is mounted at %s", mode, folder)
		}
	}
	if want := map[string]int{"single": 4, "replicas": 5}[mode]; files != want {
		t.Errorf("%s: the configuration names %d files below %s, want %d:\n%s", mode, files, mounted, want, config)
	}
	cluster := strings.Contains(config, "url: nats://nats.nats.svc:4222")
	if cluster != (mode == "replicas") || !strings.Contains(config, "listen: :8080") ||
		!strings.Contains(config, "metrics: :9090") {
		t.Errorf("%s: the config is %s", mode, config)
	}
}

func autoscaled(t *testing.T, h *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	m := h.Spec.Metrics[0]
	if h.Spec.ScaleTargetRef.Kind != "Deployment" || h.Spec.MaxReplicas != 5 || m.External == nil ||
		m.External.Metric.Name != "sluice_queue_oldest_seconds" || m.External.Target.Value.String() != "60" {
		t.Errorf("autoscaler: %+v", h.Spec)
	}
}

func network(t *testing.T, mode string, p *networkingv1.NetworkPolicy) {
	t.Helper()
	var in, out []string
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			in = append(in, port.Port.String())
		}
	}
	for _, rule := range p.Spec.Egress {
		for _, port := range rule.Ports {
			out = append(out, port.Port.String())
		}
	}
	want := map[string]string{
		"single":   "[http metrics] [53 53 443]",
		"replicas": "[http metrics] [53 53 443 4222 4318]",
	}[mode]
	if got := fmt.Sprint(in, out); got != want || len(p.Spec.PolicyTypes) != 2 {
		t.Errorf("%s: network policy %s, want %s", mode, got, want)
	}
}

// TestChartOptions renders options that the complete values of the modes do not use.
func TestChartOptions(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t)
	base := read(t, "chart/sluice/ci/replicas-values.yaml")
	write(t, values(fleet, "replicas"), strings.NewReplacer("autoscaling: {enabled: true",
		"replicas: 4\nautoscaling: {enabled: false").Replace(base)+
		"serviceAccount: {create: false, name: mine}\npodDisruptionBudget: {enabled: false}\nnodeSelector: {pool: x}\ntolerations: [{key: a, operator: Exists}]\n")
	objects := rendered(t, fleet, "replicas")
	d := get[appsv1.Deployment](t, objects, "Deployment").Spec
	if *d.Replicas != 4 || d.Template.Spec.ServiceAccountName != "mine" ||
		d.Template.Spec.NodeSelector["pool"] != "x" || len(d.Template.Spec.Tolerations) != 1 {
		t.Errorf("the spec is %+v", d)
	}
	if objects["HorizontalPodAutoscaler"] != nil || objects["PodDisruptionBudget"] != nil ||
		objects["ServiceAccount"] != nil {
		t.Errorf("the objects are %v", slices.Sorted(maps.Keys(objects)))
	}
	write(t, values(fleet, "replicas"), strings.Replace(base, "maxReplicas: 5", "maxReplicas: 5, metric: Pods", 1))
	h := get[autoscalingv2.HorizontalPodAutoscaler](t, rendered(t, fleet, "replicas"), "HorizontalPodAutoscaler")
	if m := h.Spec.Metrics[0]; m.Pods == nil || m.Pods.Metric.Name != "sluice_queue_oldest_seconds" ||
		m.Pods.Target.AverageValue.String() != "60" {
		t.Errorf("the spec is %+v", h.Spec)
	}
}

// TestChartRefuses checks that invalid values are refused, with the next step.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t)
	single, replicas := read(t, "chart/sluice/ci/single-values.yaml"), read(t, "chart/sluice/ci/replicas-values.yaml")
	for name, c := range map[string]struct{ mode, text, want string }{
		"no NATS": {
			"replicas", strings.Replace(replicas, `url: "nats://nats.nats.svc:4222"`, `url: ""`, 1),
			"nats.url is needed",
		},
		"no tag": {
			"single", strings.Replace(single, ", tag: 1.2.3", "", 1),
			"image.tag or image.digest is needed",
		},
		"no registry": {
			"single", strings.Replace(single, "repository: registry.example.com/sluice, ", "", 1),
			"image.repository is needed",
		},
		"the chart's key": {
			"single", strings.Replace(single, "sweep: 1m", "listen: :9", 1),
			"config.listen is the chart",
		},
		"autoscaled": {
			"single", single + "autoscaling: {enabled: true}\n",
			"autoscaling needs the mode replicas",
		},
		"no host": {
			"single", strings.Replace(single, "host: sluice.example.com", "host: \"\"", 1),
			"ingress.host is needed",
		},
		"no such mode":     {"single", single + "mode: many\n", "mode"},
		"a typing error":   {"single", single + "replcias: 3\n", "replcias"},
		"a path that goes": {"single", strings.Replace(single, "path: service", "path: ../etc", 1), "path"},
	} {
		write(t, values(fleet, c.mode), c.text)
		_, problems, err := sluice(t, fleet, nil, "render", "--cluster", c.mode)
		if err == nil || !strings.Contains(problems, c.want) {
			t.Errorf("%s: the error is %v: the problems are %s\nwant: %s", name, err, problems, c.want)
		}
		write(t, values(fleet, "single"), single)
		write(t, values(fleet, "replicas"), replicas)
	}
}

// TestCheckFinds checks that TestChart's check detects mistakes.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t)
	pod := filepath.Join(fleet, "charts/sluice/templates/_pod.tpl")
	write(t, pod, strings.Replace(read(t, pod), "privileged: false", "privileged: true", 1))
	write(t, values(fleet, "single"), strings.Replace(read(t, values(fleet, "single")), "tag: 1.2.3", "tag: latest", 1))
	out, _, err := sluice(t, fleet, nil, "check", "--offline", "--strict")
	if err == nil || !strings.Contains(out, "is privileged") || !strings.Contains(out, "tag latest") {
		t.Errorf("the error is %v\nthe output is\n%s", err, out)
	}
}
