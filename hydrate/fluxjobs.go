package hydrate

import (
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const fluxForce = "kustomize.toolkit.fluxcd.io/force"

// hookJob gives an object's YAML. A Job that is a hook of Helm or Argo CD gets Flux's force annotation where spec.flux says so:
// Flux applies hooks as ordinary objects, and a Job that changes is refused by the API server unless it is replaced.
func hookJob(o renderer.Object, t *source.Target) ([]byte, error) {
	if o.ID.Kind != "Job" || o.ID.Group != "batch" || !t.ForcesHookJobs() {
		return o.YAML, nil
	}
	object, err := objects.DecodeOne(o.YAML)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.ID, err)
	}
	isHook := object.Annotation("helm.sh/hook") != "" || object.Annotation("argocd.argoproj.io/hook") != ""
	if !isHook || object.Annotation(fluxForce) != "" {
		return o.YAML, nil
	}
	metadata, _ := object["metadata"].(map[string]any) // a decoded object has one: it has a name
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations[fluxForce] = "enabled" // not nil: the hook annotation is in it
	return manifest.Encode(object)
}
