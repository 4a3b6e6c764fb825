package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
)

// otherHelm makes a request compare its head with itself as if sluice.yaml chose the version of Helm in --helm, for the
// fleet and for each import.
func (d *diffOptions) otherHelm(ctx context.Context, s *app.Session, out *compare.Request) error {
	if d.helm != fleet.Helm3 && d.helm != fleet.Helm4 {
		return usagef("--helm is 3 or 4, not %d", d.helm)
	}
	return otherFleet(ctx, s, "--helm", func(text []byte) ([]byte, error) { return withHelm(text, d.helm) }, out)
}

// otherFleet makes a request compare its head with itself as if sluice.yaml had another text. The flag is for messages.
func otherFleet(ctx context.Context, s *app.Session, flag string, edit func([]byte) ([]byte, error),
	out *compare.Request,
) error {
	v, err := s.Open(ctx, out.Head.Tree)
	if err != nil {
		return err
	}
	if v.Fleet.Detected {
		return usagef("%s changes sluice.yaml, and this repository has none: write it with `sluice import --detect`", flag)
	}
	text, err := s.Store.Snapshot(ctx, out.Head.Tree).ReadFile(fleet.File)
	if err != nil {
		return err
	}
	if text, err = edit(text); err != nil {
		return err
	}
	tree, err := s.Store.Replace(ctx, out.Head.Tree, fleet.File, text)
	if err != nil {
		return err
	}
	out.Base, out.Head = out.Head, gitstore.Commit{Tree: tree, Parents: out.Head.Parents}
	if !out.Base.Hash.IsZero() {
		out.Head.Parents = []gitstore.Hash{out.Base.Hash}
	}
	return nil
}

// withHelm returns the text of a valid sluice.yaml with another version of Helm.
func withHelm(text []byte, version int) ([]byte, error) {
	number := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(version)}
	return withSpec(text, func(spec *yaml.Node) {
		set(spec, "helm", number)
		if imports := entry(spec, "import"); imports != nil {
			for _, one := range imports.Content {
				set(one, "helm", number)
			}
		}
	})
}

// withArgoCD returns the text of a valid sluice.yaml with another version of Argo CD.
func withArgoCD(text []byte, version string) ([]byte, error) {
	word := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: version, Style: yaml.DoubleQuotedStyle}
	return withSpec(text, func(spec *yaml.Node) {
		if imports := entry(spec, "import"); imports != nil {
			for _, one := range imports.Content {
				if argocd := entry(one, "argocd"); argocd != nil {
					set(argocd, "version", word)
				}
			}
		}
	})
}

// withSpec returns the text of a valid sluice.yaml whose spec was edited. The documents beside the fleet stay.
func withSpec(text []byte, edit func(spec *yaml.Node)) ([]byte, error) {
	var out bytes.Buffer
	in, encoder := yaml.NewDecoder(bytes.NewReader(text)), yaml.NewEncoder(&out)
	for {
		var doc yaml.Node
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) {
			err = encoder.Close()
			return out.Bytes(), err
		}
		if err != nil {
			return nil, err
		}
		if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
			continue // an empty document
		}
		if kind := entry(doc.Content[0], "kind"); kind != nil && kind.Value == "Fleet" {
			edit(entry(doc.Content[0], "spec"))
		}
		if err := encoder.Encode(&doc); err != nil {
			return nil, err
		}
	}
}

// entry returns the value of a key in a mapping; nil if it has none.
func entry(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set sets a key of a mapping.
func set(mapping *yaml.Node, key string, value yaml.Node) {
	if has := entry(mapping, key); has != nil {
		*has = value
		return
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &value)
}
