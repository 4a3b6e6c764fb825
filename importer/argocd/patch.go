package argocd

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// templatePatched applies a templatePatch, which is a strategic merge patch, to an Application. The project stays,
// whatever the patch says.
func templatePatched(app map[string]any, text string) (map[string]any, error) {
	patch, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &application{}); err != nil {
		return nil, err
	}
	original, err := json.Marshal(app)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(original, patch, applicationMeta{})
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(merged, &out); err != nil {
		return nil, err
	}
	before, _ := app["spec"].(map[string]any)
	spec, _ := out["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		out["spec"] = spec
	}
	spec["project"] = before["project"] // a patch must not move an Application into another project
	return out, nil
}

// applicationMeta says how the fields of Argo CD's type Application merge: the metadata as Kubernetes' type says, and
// below spec mappings merge and lists replace each other, because no field there has a strategy. tools/gitops/argocd
// compares it with the type.
type applicationMeta struct {
	field string // whose fields it is about; "" for the Application
}

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (a applicationMeta) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta,
	strategicpatch.PatchMeta, error,
) {
	switch {
	case a.field == "" && key == "metadata":
		meta, err := strategicpatch.NewPatchMetaFromStruct(metav1.ObjectMeta{})
		return meta, strategicpatch.PatchMeta{}, err
	case a.field == "valuesObject": // bytes to Argo CD's type, so the merge knows no field in it
		return nil, strategicpatch.PatchMeta{},
			fmt.Errorf("both the template and the patch have the mapping or list %q in valuesObject, which Argo CD cannot merge (repeat the whole of valuesObject after $patch: replace)", key)
	}
	return applicationMeta{key}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (a applicationMeta) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta,
	strategicpatch.PatchMeta, error,
) {
	return a.LookupPatchMetadataForStruct(key)
}

// Name implements strategicpatch.LookupPatchMeta.
func (a applicationMeta) Name() string { return a.field }
