// Package lifecycle knows which APIs a minor version of Kubernetes serves, and which versions of add-ons work with it.
// From the objects of a cluster it finds what an upgrade of the cluster breaks.
//
// The life cycles of APIs come from Kubernetes' own types, in the version of the libraries that this binary has. The
// package is pure: it reads no file and asks nobody. What it returns is safe for concurrent use.
//
// The package is not API: it can change in every release.
package lifecycle

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// Minor is a minor version of Kubernetes. The zero value is none.
type Minor struct{ Major, Minor int }

// Before reports whether m is older than o.
func (m Minor) Before(o Minor) bool { return m.Compare(o) < 0 }

// Compare returns -1 if m is older than o, and 1 if it is newer.
func (m Minor) Compare(o Minor) int {
	return cmp.Or(cmp.Compare(m.Major, o.Major), cmp.Compare(m.Minor, o.Minor))
}

// Next returns the minor version after m.
func (m Minor) Next() Minor { return Minor{m.Major, m.Minor + 1} }

// IsZero reports whether m is no version.
func (m Minor) IsZero() bool { return m == Minor{} }

// String returns the version as 1.33.
func (m Minor) String() string { return strconv.Itoa(m.Major) + "." + strconv.Itoa(m.Minor) }

// ParseMinor parses 1.33, v1.33.2 or 1.33.2+k3s1.
func ParseMinor(text string) (Minor, bool) {
	first, rest, ok := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	if !ok {
		return Minor{}, false
	}
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(strings.TrimRight(second, "+"))
	if err1 != nil || err2 != nil || a < 0 || b < 0 {
		return Minor{}, false
	}
	return Minor{a, b}, true
}

// API is the end of life of a version of a kind. Zero versions are none, or not known.
type API struct {
	Deprecated, Removed Minor
	Replacement         string // such as `policy/v1 PodDisruptionBudget`; "" if there is none
}

// The methods that Kubernetes generates for the types of API versions with an end of life.
type (
	deprecatedAPI interface{ APILifecycleDeprecated() (major, minor int) }
	removedAPI    interface{ APILifecycleRemoved() (major, minor int) }
	replacedAPI   interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// Of returns the end of life of a version of a kind; false if Kubernetes does not have it, or has set none. A list has
// that of its items.
func Of(apiVersion, kind string) (API, bool) {
	if a, ok := of(apiVersion, kind); ok {
		return a, true
	}
	item, isList := strings.CutSuffix(kind, "List")
	if !isList {
		return API{}, false
	}
	return of(apiVersion, item)
}

func of(apiVersion, kind string) (API, bool) {
	if a, ok := gone[apiVersion+"/"+kind]; ok {
		return a, true
	}
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return API{}, false
	}
	var out API
	d, ok := object.(deprecatedAPI)
	if !ok {
		return API{}, false
	}
	out.Deprecated.Major, out.Deprecated.Minor = d.APILifecycleDeprecated()
	if r, ok := object.(removedAPI); ok {
		out.Removed.Major, out.Removed.Minor = r.APILifecycleRemoved()
	}
	if r, ok := object.(replacedAPI); ok {
		to := r.APILifecycleReplacement()
		out.Replacement = to.GroupVersion().String() + " " + to.Kind
	} else if newest := stable(gvk); newest != "" {
		out.Replacement = newest + " " + kind
	}
	return out, true
}

// stable returns the newest version of a kind, if it is newer than gvk; "" if there is none. Not every type names what
// replaces it.
func stable(gvk schema.GroupVersionKind) string {
	newest := gvk.Version
	for _, v := range scheme.Scheme.VersionsForGroupKind(gvk.GroupKind()) {
		if version.CompareKubeAwareVersionStrings(v.Version, newest) > 0 {
			newest = v.Version
		}
	}
	if newest == gvk.Version {
		return ""
	}
	return schema.GroupVersion{Group: gvk.Group, Version: newest}.String()
}

// named is a version of a kind with its end of life.
type named struct {
	schema.GroupVersionKind
	API
}

// removedBy returns what Kubernetes no longer serves at a version.
func removedBy(at Minor) iter.Seq[named] {
	return func(yield func(named) bool) {
		for key, a := range gone {
			i := strings.LastIndexByte(key, '/')
			one := named{schema.FromAPIVersionAndKind(key[:i], key[i+1:]), a}
			if !at.Before(a.Removed) && !yield(one) {
				return
			}
		}
		for gvk := range scheme.Scheme.AllKnownTypes() {
			if strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") {
				continue
			}
			a, ok := of(gvk.GroupVersion().String(), gvk.Kind)
			if ok && !a.Removed.IsZero() && !at.Before(a.Removed) && !yield(named{gvk, a}) {
				return
			}
		}
	}
}

// gone has the APIs that Kubernetes' libraries no longer contain, or never did. Sources: the deprecation guide
// (https://kubernetes.io/docs/reference/using-api/deprecation-guide/) and, for alpha versions that it leaves out, the
// table of pluto (https://github.com/FairwindsOps/pluto/blob/master/versions.yaml).
var gone = func() map[string]API { //nolint:gochecknoglobals // never changed
	v := func(m int) Minor { return Minor{1, m} }
	out := map[string]API{
		"apiextensions.k8s.io/v1beta1/CustomResourceDefinition": {
			v(16), v(22), "apiextensions.k8s.io/v1 CustomResourceDefinition",
		},
		"apiregistration.k8s.io/v1beta1/APIService":   {v(16), v(22), "apiregistration.k8s.io/v1 APIService"},
		"policy/v1beta1/PodSecurityPolicy":            {v(21), v(25), "Pod Security admission"},
		"extensions/v1beta1/PodSecurityPolicy":        {v(11), v(16), "Pod Security admission"},
		"autoscaling/v2beta1/HorizontalPodAutoscaler": {v(22), v(25), "autoscaling/v2 HorizontalPodAutoscaler"},
		"autoscaling/v2beta2/HorizontalPodAutoscaler": {v(23), v(26), "autoscaling/v2 HorizontalPodAutoscaler"},
		"networking.k8s.io/v1beta1/IngressClass":      {v(19), v(22), "networking.k8s.io/v1 IngressClass"},
		"scheduling.k8s.io/v1alpha1/PriorityClass":    {v(14), v(17), "scheduling.k8s.io/v1 PriorityClass"},
		"storagemigration.k8s.io/v1alpha1/StorageVersionMigration": {
			v(35), v(35), "storagemigration.k8s.io/v1 StorageVersionMigration",
		},
		// it never existed, but some manifests name it
		"apps/v1beta1/ReplicaSet": {v(8), v(16), "apps/v1 ReplicaSet"},
	}
	add := func(apiVersion, to string, deprecated, removed int, kinds ...string) {
		for _, kind := range kinds {
			out[apiVersion+"/"+kind] = API{v(deprecated), v(removed), to + " " + kind}
		}
	}
	add("flowcontrol.apiserver.k8s.io/v1alpha1", "flowcontrol.apiserver.k8s.io/v1", 20, 21, "FlowSchema", //nolint:mnd // minors
		"PriorityLevelConfiguration")
	add("rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1", 17, 22, "Role", "RoleBinding", //nolint:mnd // minors
		"ClusterRole", "ClusterRoleBinding")
	add("resource.k8s.io/v1alpha3", "resource.k8s.io/v1", 32, 34, "DeviceClass", "ResourceClaim", //nolint:mnd // minors
		"ResourceClaimTemplate", "ResourceSlice")
	add("audit.k8s.io/v1alpha1", "audit.k8s.io/v1", 21, 24, "Policy", "Event") //nolint:mnd // minors
	add("audit.k8s.io/v1beta1", "audit.k8s.io/v1", 21, 24, "Policy", "Event")  //nolint:mnd // minors
	return out
}()

// Served returns the APIs of a list, as group/version or group/version/Kind, that a version still serves as far as
// Kubernetes' own types tell. A group/version is gone when all its kinds are.
func Served(list []string, at Minor) []string {
	return slices.DeleteFunc(slices.Clone(list), func(api string) bool {
		parts := strings.Split(api, "/")
		switch last := parts[len(parts)-1]; {
		case last != "" && last[0] >= 'A' && last[0] <= 'Z':
			a, ok := Of(strings.Join(parts[:len(parts)-1], "/"), last)
			return ok && !a.Removed.IsZero() && !at.Before(a.Removed)
		default:
			return emptied(api, at)
		}
	})
}

// emptied reports whether a version serves no kind of a group/version any more. A group/version that is not Kubernetes'
// own is served.
func emptied(apiVersion string, at Minor) bool {
	known := false
	for key, a := range gone {
		if strings.HasPrefix(key, apiVersion+"/") {
			if known = true; at.Before(a.Removed) {
				return false
			}
		}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return false
	}
	for kind := range scheme.Scheme.KnownTypes(gv) {
		if isMeta(kind) {
			continue
		}
		a, ok := of(apiVersion, kind)
		if known = true; !ok || a.Removed.IsZero() || at.Before(a.Removed) {
			return false
		}
	}
	return known
}

// isMeta reports whether a kind is one that every group has, or the list of another.
func isMeta(kind string) bool {
	return strings.HasSuffix(kind, "List") || strings.HasSuffix(kind, "Options") || kind == "WatchEvent"
}
