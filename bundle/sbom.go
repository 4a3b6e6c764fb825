package bundle

import (
	"encoding/json"
	"strings"
	"time"
)

// bom is the part of a CycloneDX document that a bundle needs (https://cyclonedx.org/docs/1.5/json/).
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Hashes  []sum  `json:"hashes,omitempty"`
}

type sum struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// sbom lists the source commit and the images of a bundle. Equal bundles have equal lists.
func sbom(fleet, environment string, e Entry, c Contents, images []string) ([]byte, error) {
	out := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: bomMetadata{
			Timestamp: e.Created.Format(time.RFC3339),
			Component: component{Type: "application", Ref: "fleet", Name: fleet + "/" + environment, Version: c.Source},
		},
		Components: []component{},
	}
	for _, image := range images {
		name, digest, _ := strings.Cut(image, "@sha256:")
		one := component{Type: "container", Ref: image, Name: name}
		if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
			one.Name, one.Version = name[:i], name[i+1:]
		}
		if digest != "" {
			one.Hashes = []sum{{"SHA-256", digest}}
		}
		out.Components = append(out.Components, one)
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}
