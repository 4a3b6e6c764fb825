package config

import (
	"bytes"
	"strings"
)

// Secret is a value from a file or a variable. It is never in the configuration itself.
type Secret struct {
	File  string `yaml:"file"`
	Env   string `yaml:"env"`
	value []byte
}

// Bytes returns the secret without surrounding white space; empty if it is not set.
func (s Secret) Bytes() []byte { return s.value }

// Set reports whether the secret is configured.
func (s Secret) Set() bool { return s.File != "" || s.Env != "" }

// String hides the value.
func (s Secret) String() string { return "(secret)" }

func (secret *Secret) load(p *problems, s Sources, at string, required bool) {
	switch {
	case secret.File != "" && secret.Env != "":
		p.add("%s: set file or env, not both", at)
	case secret.File != "":
		data, err := s.Read(secret.File)
		if err != nil {
			p.add("%s: %w", at, err)
			return
		}
		secret.value = bytes.TrimSpace(data)
	case secret.Env != "":
		secret.value = []byte(strings.TrimSpace(s.Getenv(secret.Env)))
	case !required:
		return
	}
	if len(secret.value) == 0 {
		p.add("%s: the secret is empty", at)
	}
}
