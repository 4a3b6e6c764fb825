package bundle

import (
	"bytes"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/sluice-gitops/sluice/diff"
)

// sbom lists the source commit, the images and the charts of a bundle. Equal bundles have equal lists.
func sbom(fleet, environment string, e Entry, c Contents, images []string) ([]byte, error) {
	components := make([]cyclonedx.Component, 0, len(images))
	for _, image := range images {
		parts := diff.SplitImage(image)
		one := cyclonedx.Component{Type: cyclonedx.ComponentTypeContainer, BOMRef: image, Name: parts.Repository, Version: parts.Tag}
		if digest, ok := strings.CutPrefix(parts.Digest, "sha256:"); ok {
			one.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: digest}}
		}
		components = append(components, one)
	}
	for _, k := range c.Charts {
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeFile, BOMRef: chartPart(k.SHA256), Name: k.Chart, Version: k.Version,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: k.SHA256}},
		})
	}
	out := cyclonedx.NewBOM()
	out.Metadata = &cyclonedx.Metadata{
		Timestamp: e.Created.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, BOMRef: "fleet", Name: fleet + "/" + environment, Version: c.Source,
		},
	}
	out.Components = &components
	var text bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(out, cyclonedx.SpecVersion1_5)
	return text.Bytes(), err
}
