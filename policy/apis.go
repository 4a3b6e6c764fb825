package policy

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// minor is a minor version of Kubernetes.
type minor struct{ major, minor int }

func (m minor) before(o minor) bool {
	return m.major < o.major || m.major == o.major && m.minor < o.minor
}

func (m minor) next() minor { return minor{m.major, m.minor + 1} }

func (m minor) String() string { return strconv.Itoa(m.major) + "." + strconv.Itoa(m.minor) }

// parseMinor parses 1.33, v1.33.2 or 1.33.2+k3s1.
func parseMinor(version string) (minor, bool) {
	first, rest, ok := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if !ok {
		return minor{}, false
	}
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(strings.TrimRight(second, "+"))
	return minor{a, b}, err1 == nil && err2 == nil
}

// lifecycle has the versions in which an API is deprecated and removed.
type lifecycle struct {
	deprecated, removed minor // zero: no, or unknown
	replacement         string
}

// The methods that Kubernetes generates for the types of API versions with an end of life.
type (
	deprecatedAPI interface{ APILifecycleDeprecated() (major, minor int) }
	removedAPI    interface{ APILifecycleRemoved() (major, minor int) }
	replacedAPI   interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// lifecycleOf returns the life cycle of an API from Kubernetes' own types. For types that its libraries no longer
// contain, it uses the deprecation guide (https://kubernetes.io/docs/reference/using-api/deprecation-guide/).
func lifecycleOf(apiVersion, kind string) (lifecycle, bool) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if l, ok := goneAPIs()[apiVersion+"/"+kind]; ok {
		return l, true
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return lifecycle{}, false
	}
	var out lifecycle
	d, ok := object.(deprecatedAPI)
	if !ok {
		return lifecycle{}, false
	}
	out.deprecated.major, out.deprecated.minor = d.APILifecycleDeprecated()
	if r, ok := object.(removedAPI); ok {
		out.removed.major, out.removed.minor = r.APILifecycleRemoved()
	}
	if r, ok := object.(replacedAPI); ok {
		to := r.APILifecycleReplacement()
		out.replacement = to.GroupVersion().String() + " " + to.Kind
	}
	return out, true
}

func goneAPIs() map[string]lifecycle {
	v := func(m int) minor { return minor{1, m} }
	crd := lifecycle{v(16), v(22), "apiextensions.k8s.io/v1 CustomResourceDefinition"}
	psp := lifecycle{deprecated: v(21), removed: v(25), replacement: "Pod Security admission"}
	return map[string]lifecycle{
		"apiextensions.k8s.io/v1beta1/CustomResourceDefinition": crd,
		"apiregistration.k8s.io/v1beta1/APIService": {
			v(16), v(22),
			"apiregistration.k8s.io/v1 APIService",
		},
		"policy/v1beta1/PodSecurityPolicy":     psp,
		"extensions/v1beta1/PodSecurityPolicy": {v(11), v(16), "Pod Security admission"},
		"autoscaling/v2beta1/HorizontalPodAutoscaler": {
			v(22), v(25),
			"autoscaling/v2 HorizontalPodAutoscaler",
		},
		"autoscaling/v2beta2/HorizontalPodAutoscaler": {
			v(23), v(26),
			"autoscaling/v2 HorizontalPodAutoscaler",
		},
		"flowcontrol.apiserver.k8s.io/v1alpha1/FlowSchema": {
			v(20), v(21),
			"flowcontrol.apiserver.k8s.io/v1 FlowSchema",
		},
		"flowcontrol.apiserver.k8s.io/v1alpha1/PriorityLevelConfiguration": {
			v(20), v(21),
			"flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration",
		},
	}
}

// apiCheck finds APIs that the cluster, or the next version of Kubernetes, does not serve.
type apiCheck struct{ engine *Engine }

func (c *apiCheck) scope(s *Subject, o *Object) string {
	version, ok := parseMinor(s.Cluster.KubeVersion)
	if !ok {
		return ""
	}
	return o.Object.APIVersion() + "\x00" + o.Object.Kind() + "\x00" + version.String()
}

func (c *apiCheck) check(_ context.Context, s *Subject, o *Object) ([]breach, error) {
	l, ok := lifecycleOf(o.Object.APIVersion(), o.Object.Kind())
	if !ok {
		return nil, nil
	}
	version, _ := parseMinor(s.Cluster.KubeVersion)
	api := o.Object.APIVersion() + " " + o.Object.Kind()
	hint := ""
	if l.replacement != "" {
		hint = "use " + l.replacement
	}
	zero := minor{}
	switch {
	case l.removed != zero && !version.before(l.removed):
		return []breach{{
			rule: RuleAPIRemoved, path: "apiVersion",
			message: fmt.Sprintf("Kubernetes no longer serves %s since %s, and the cluster has %s", api, l.removed,
				version), hint: hint,
		}}, nil
	case l.removed != zero && !version.next().before(l.removed):
		return []breach{{
			rule: RuleAPIDeprecated, path: "apiVersion",
			message: fmt.Sprintf("%s is not served by Kubernetes %s, the next version after the cluster's", api,
				l.removed), hint: hint,
		}}, nil
	case l.deprecated != zero && !version.next().before(l.deprecated):
		return []breach{{
			rule: RuleAPIDeprecated, path: "apiVersion",
			message: fmt.Sprintf("%s is deprecated since Kubernetes %s%s", api, l.deprecated, until(l.removed)),
			hint:    hint,
		}}, nil
	}
	return nil, nil
}

func until(removed minor) string {
	if removed == (minor{}) {
		return ""
	}
	return " and removed in " + removed.String()
}
