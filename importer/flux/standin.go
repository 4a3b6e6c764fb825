package flux

import (
	"bytes"
	"fmt"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// standInDir is the folder with values that stand in for ConfigMaps and Secrets that are not in Git, as
// NAMESPACE-NAME.yaml. A file is the object, or a mapping of its keys to texts.
const standInDir = "stand-ins/"

// referred returns the ConfigMap or Secret that a unit refers to; nil if it is not known. Values that stand in for it
// count if it is not in Git, or encrypted there; standIn is their file.
func (c *cluster) referred(key Key) (o manifest.Object, standIn string, err error) {
	o, ok := c.objects[key]
	if ok {
		if _, encrypted, err := dataOf(o); err != nil || !encrypted {
			return o, "", nil //nolint:nilerr // who reads it reports the error
		}
	}
	name := standInDir + key.Namespace + "-" + key.Name + ".yaml"
	if found, err := c.tree.Stat(name); err != nil || !found.Mode().IsRegular() {
		return o, "", nil //nolint:nilerr // there is none
	}
	data, err := c.tree.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	out, err := parseStandIn(key, data)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return out, name, nil
}

// parseStandIn reads a file with values that stand in for an object.
func parseStandIn(key Key, data []byte) (manifest.Object, error) {
	if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
		return nil, err
	}
	var kind struct {
		Kind string `yaml:"kind"`
	}
	if yaml.Unmarshal(data, &kind) == nil && kind.Kind != "" {
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			return nil, err
		}
		if len(objects) != 1 || keyOf(objects[0]).Kind != key.Kind {
			return nil, fmt.Errorf("it must have one %s, or a mapping of its keys to texts", key.Kind)
		}
		return objects[0], nil
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	field := "data"
	if key.Kind == kindSecret {
		field = "stringData"
	}
	return manifest.Object{
		"apiVersion": "v1", "kind": key.Kind, "metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
		field: values,
	}, nil
}

// standIns are the files with values that stand in for objects from which a Kustomization substitutes.
func (c *cluster) standIns(namespace string, post *kustomizev1.PostBuild) []string {
	if post == nil {
		return nil
	}
	var out []string
	for _, ref := range post.SubstituteFrom {
		// load reports the error
		if _, file, err := c.referred(Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}); err == nil &&
			file != "" {
			out = append(out, file)
		}
	}
	return union(out, nil)
}

// unsetError is a reference to a variable that is not set and has no default.
type unsetError struct {
	object Key
	name   string
	at     Origin // of the reference; zero if it is not known
}

func (e *unsetError) Error() string {
	where := ""
	if e.at.File != "" {
		where = e.at.String() + ": "
	}
	return fmt.Sprintf("%s%s: spec.postBuild: the variable %s is not set (set it, give it a default as in ${%s:=}, keep the text with $${%s}, or set strictPostBuildSubstitutions: false in spec.import[].flux)",
		where, e.object, e.name, e.name, e.name)
}

// mentioning finds a reference to a variable in the files that a build read: in the one of its object if several have
// one.
func (c *cluster) mentioning(e *unsetError, reads []string) Origin {
	var out Origin
	for _, name := range reads {
		data, err := c.tree.ReadFile(name)
		if err != nil {
			continue // the build has read it
		}
		at := bytes.Index(data, []byte("${"+e.name))
		if at < 0 {
			continue
		}
		here := Origin{File: name, Line: bytes.Count(data[:at], []byte("\n")) + 1}
		if bytes.Contains(data, []byte(e.object.Name)) && bytes.Contains(data, []byte(e.object.Kind)) {
			return here
		}
		if out.File == "" {
			out = here
		}
	}
	return out
}
