package render

import (
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const fluxForce = "kustomize.toolkit.fluxcd.io/force"

// hookJob returns an object's YAML. If spec.flux asks for it, a Job that is a hook of Helm or Argo CD gets Flux's
// force annotation: Flux applies hooks as ordinary objects, and the API server refuses a changed Job unless Flux
// recreates it.
func hookJob(o renderer.Object, p place) ([]byte, error) {
	if o.ID.Kind != "Job" || o.ID.Group != "batch" || !p.forceHookJobs {
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
	metadata, _ := object["metadata"].(map[string]any) // present: every decoded object has a name
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations[fluxForce] = "enabled" // not nil: it holds the hook annotation
	return manifest.Encode(object)
}
