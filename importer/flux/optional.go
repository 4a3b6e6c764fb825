package flux

import (
	"bytes"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// reference is a reference of a unit to a ConfigMap or Secret that need not be in Git: it is optional, or values stand
// in for the object.
type reference struct {
	of      Key // the unit
	field   string
	key     Key    // the object
	standIn string // the file with the values; "" for an optional reference
}

// optionalReferences returns the references of a Kustomization or HelmRelease whose objects need not be in Git, and are
// not known (yet).
func (c *cluster) optionalReferences(o manifest.Object) []reference {
	of := keyOf(o)
	var out []reference
	add := func(field, kind, name string, optional bool) {
		key := Key{Kind: kind, Namespace: of.Namespace, Name: name}
		if _, ok := c.objects[key]; ok {
			return
		}
		if _, standIn, err := c.referred(key); optional || err == nil && standIn != "" { // the unit reports an error
			out = append(out, reference{of, field, key, standIn})
		}
	}
	if !mayRefer(o) {
		return nil
	}
	switch of.Kind {
	case kindKustomization:
		var ks kustomizev1.Kustomization
		if decode(o, &ks) != nil || ks.Spec.PostBuild == nil { // the unit reports an error
			return nil
		}
		for _, ref := range ks.Spec.PostBuild.SubstituteFrom {
			add("spec.postBuild.substituteFrom", ref.Kind, ref.Name, ref.Optional)
		}
	case kindHelmRelease:
		var r helmv2.HelmRelease
		if decode(o, &r) != nil { // as before
			return nil
		}
		for i, ref := range r.Spec.ValuesFrom {
			add(fmt.Sprintf("spec.valuesFrom[%d]", i), ref.Kind, ref.Name, ref.Optional)
		}
	}
	return out
}

// mayRefer reports whether an object has references to ConfigMaps and Secrets at all. Most have none, and need not be
// decoded for them.
func mayRefer(o manifest.Object) bool {
	spec, _ := o["spec"].(map[string]any)
	post, _ := spec["postBuild"].(map[string]any)
	return spec["valuesFrom"] != nil || post["substituteFrom"] != nil
}

// recheckOptional fails each unit that was read without an object which the cluster has or may have: a unit that was
// read later brings it, or a unit that is suspended or cannot be built may bring it. What a failed unit brings fails
// too.
func (c *cluster) recheckOptional() {
	failed := map[Key]error{}
	for _, ref := range c.absent {
		if u := c.units[ref.of]; u == nil || u.Err != nil || u.Suspended || failed[ref.of] != nil {
			continue
		}
		_, brought := c.objects[ref.key]
		switch {
		case brought && ref.standIn != "":
			failed[ref.of] = fmt.Errorf("%s: a unit that is read later brings %s (remove %s)", ref.field, ref.key,
				ref.standIn)
			continue
		case ref.standIn != "":
			continue
		case brought:
			failed[ref.of] = fmt.Errorf("%s: %s is optional, and a unit that is read later brings it (remove optional: true)", ref.field, ref.key)
			continue
		}
		mayDefine := func(_ string, data []byte) bool { return namesObject(data, ref.key.Name) }
		if k, why := c.unreadUnit(mayDefine); why != "" {
			failed[ref.of] = fmt.Errorf("%s: %s is optional, and %s may bring it, which %s, so it is unknown whether the cluster has it", ref.field, ref.key, k, why)
		}
	}
	for _, k := range c.order { // parents come before their children
		u := c.units[k]
		err := failed[k]
		if err == nil && failed[u.Parent] != nil {
			err = fmt.Errorf("%s brings it and fails: %w", u.Parent, failed[u.Parent])
		}
		if err != nil && u.Err == nil && !u.Suspended {
			failed[k] = err
			u.Err, u.Brings = err, c.mayBring(u.object) || k.Kind == kindResourceSet
		}
	}
}

// namesObject reports whether a file may define an object of a name. A prefix or suffix of Kustomize can make any name.
func namesObject(data []byte, name string) bool {
	return bytes.Contains(data, []byte(name)) || bytes.Contains(data, []byte("namePrefix:")) ||
		bytes.Contains(data, []byte("nameSuffix:"))
}
