package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/yamlmistake"
)

// Receiver gets a notification when branches move.
type Receiver struct {
	Kind         string   `yaml:"kind"`         // flux (a Receiver of the type generic-hmac) or argocd (/api/webhook)
	URL          string   `yaml:"url"`          // may contain ${cluster.name} and ${environment}
	Secret       Secret   `yaml:"secret"`       // signs notifications
	Repositories []string `yaml:"repositories"` // patterns of full paths; empty: all
	Clusters     []string `yaml:"clusters"`     // patterns of names; empty: all
}

// ParseReceivers parses a list of receivers and reads their secrets. The error lists all problems.
func ParseReceivers(name string, data []byte, s Sources) ([]Receiver, error) {
	var list []Receiver
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlmistake.Errors(name, yamlmistake.Explain(err, data, &list))
	}
	p := &problems{name: name}
	for i := range list {
		at := fmt.Sprintf("[%d]", i)
		list[i].check(p, at)
		list[i].Secret.load(p, s, at+".secret", true)
	}
	return list, errors.Join(p.list...)
}

func (r *Receiver) check(p *problems, at string) {
	if r.Kind != "flux" && r.Kind != "argocd" {
		p.add("%s.kind: %q must be flux or argocd", at, r.Kind)
	}
	plain := strings.NewReplacer("${cluster.name}", "x", "${environment}", "x").Replace(r.URL)
	if !webURL(plain) || strings.Contains(plain, "${") {
		p.add("%s.url: it must be an http or https URL without credentials; it may contain ${cluster.name} and ${environment}", at)
	}
	for _, pattern := range append(append([]string{}, r.Repositories...), r.Clusters...) {
		if _, err := path.Match(pattern, ""); err != nil {
			p.add("%s: %q is not a valid pattern", at, pattern)
		}
	}
}

// Concerns reports whether the receiver gets notifications of a repository.
func (r *Receiver) Concerns(repository string) bool {
	return len(r.Repositories) == 0 || matches(r.Repositories, repository)
}
