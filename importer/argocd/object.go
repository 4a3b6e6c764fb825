package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	kustypes "sigs.k8s.io/kustomize/api/types"
)

const (
	group              = "argoproj.io"
	kindApplication    = "Application"
	kindApplicationSet = "ApplicationSet"

	// finalizer makes Argo CD delete the objects of an Application with it. ApplicationSets add it.
	finalizer = "resources-finalizer.argocd.argoproj.io"

	inClusterName   = "in-cluster"
	inClusterServer = "https://kubernetes.default.svc"
)

// application is what an import reads of an Application.
// https://argo-cd.readthedocs.io/en/stable/user-guide/application-specification/
type application struct {
	Metadata struct {
		Name       string   `json:"name"`
		Namespace  string   `json:"namespace"`
		Finalizers []string `json:"finalizers"`
	} `json:"metadata"`
	Spec struct {
		Project        string           `json:"project"`
		Source         *source          `json:"source"`
		Sources        []source         `json:"sources"`
		SourceHydrator *json.RawMessage `json:"sourceHydrator"`
		Destination    destination      `json:"destination"`
		SyncPolicy     struct {
			Automated *struct {
				Prune bool `json:"prune"`
			} `json:"automated"`
		} `json:"syncPolicy"`
	} `json:"spec"`
}

type destination struct {
	Name      string `json:"name"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
}

type source struct {
	RepoURL        string           `json:"repoURL"`
	Path           string           `json:"path"`
	Chart          string           `json:"chart"`
	TargetRevision string           `json:"targetRevision"`
	Ref            string           `json:"ref"`
	Name           string           `json:"name"`
	Helm           *helmSource      `json:"helm"`
	Kustomize      *kustomizeSource `json:"kustomize"`
	Directory      *directorySource `json:"directory"`
	Plugin         *json.RawMessage `json:"plugin"`
}

type helmSource struct {
	ValueFiles              []string        `json:"valueFiles"`
	IgnoreMissingValueFiles bool            `json:"ignoreMissingValueFiles"`
	Values                  string          `json:"values"`
	ValuesObject            map[string]any  `json:"valuesObject"`
	Parameters              []helmParameter `json:"parameters"`
	FileParameters          []struct {
		Name string `json:"name"`
		Path string `json:"path"`
	} `json:"fileParameters"`
	ReleaseName          string   `json:"releaseName"`
	SkipCrds             bool     `json:"skipCrds"`
	SkipSchemaValidation bool     `json:"skipSchemaValidation"`
	KubeVersion          string   `json:"kubeVersion"`
	APIVersions          []string `json:"apiVersions"`
	Namespace            string   `json:"namespace"`
}

type helmParameter struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ForceString bool   `json:"forceString"`
}

type kustomizeSource struct {
	NamePrefix                string            `json:"namePrefix"`
	NameSuffix                string            `json:"nameSuffix"`
	Images                    []string          `json:"images"`
	CommonLabels              map[string]string `json:"commonLabels"`
	CommonAnnotations         map[string]string `json:"commonAnnotations"`
	CommonAnnotationsEnvsubst bool              `json:"commonAnnotationsEnvsubst"`
	ForceCommonLabels         bool              `json:"forceCommonLabels"`
	ForceCommonAnnotations    bool              `json:"forceCommonAnnotations"`
	LabelWithoutSelector      bool              `json:"labelWithoutSelector"`
	LabelIncludeTemplates     bool              `json:"labelIncludeTemplates"`
	Namespace                 string            `json:"namespace"`
	Components                []string          `json:"components"`
	IgnoreMissingComponents   bool              `json:"ignoreMissingComponents"`
	KubeVersion               string            `json:"kubeVersion"`
	APIVersions               []string          `json:"apiVersions"`
	Replicas                  []struct {
		Name  string             `json:"name"`
		Count intstr.IntOrString `json:"count"`
	} `json:"replicas"`
	Patches []kustomizePatch `json:"patches"`
}

// kustomizePatch is written into kustomizations as it is here.
type kustomizePatch struct {
	Path    string             `json:"path,omitempty"`
	Patch   string             `json:"patch,omitempty"`
	Target  *kustypes.Selector `json:"target,omitempty"`
	Options map[string]bool    `json:"options,omitempty"`
}

type directorySource struct {
	Recurse bool             `json:"recurse"`
	Include string           `json:"include"`
	Exclude string           `json:"exclude"`
	Jsonnet *json.RawMessage `json:"jsonnet"`
}

// decode converts an object. Unknown fields are ignored, as the API server drops them.
func decode(o any, into any) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	err = json.Unmarshal(data, into)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && bad.Type.Kind() == reflect.String &&
		(bad.Value == "bool" || strings.HasPrefix(bad.Value, "number")) {
		what, _, _ := strings.Cut(bad.Value, " ")
		return fmt.Errorf("%s is a %s in YAML, not text (quote it)", bad.Field, what)
	}
	return err
}
