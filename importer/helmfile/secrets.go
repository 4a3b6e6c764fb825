package helmfile

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// secrets records why the output of helmfile may contain secrets: templates and inline values can read any file and the
// values of the environment.
type secrets struct {
	file   string // a file that has references or functions of a secret store; "" if none has
	inline string // the reason for values of templates and of the helmfile; "" if there is none
}

// secret reports whether a file has references that helmfile replaces by secrets.
func secret(data []byte) bool {
	for _, word := range []string{"ref+", "fetchSecretValue", "expandSecretRefs"} {
		if bytes.Contains(data, []byte(word)) {
			return true
		}
	}
	return false
}

// scan looks for what puts secrets into states: in the states, and in all files of the repository.
func (c *converter) scan(all []loaded) error {
	// values files of releases: their references are not carried over, and no template has their values
	plain := map[string]bool{}
	for _, l := range all {
		for d := range l.docs {
			c.plainFiles(&l.docs[d], plain)
		}
	}
	for _, l := range all {
		for d := range l.docs {
			c.scanEnvironments(&l.docs[d], plain)
		}
	}
	read, ours := false, "" // a template can read a values file
	err := fs.WalkDir(c.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		found, reads := c.scanFile(name)
		read = read || reads
		switch {
		case found == "":
			return nil
		case plain[name]:
			ours = found
		default:
			c.secrets.because(found)
		}
		c.secrets.file = cmp.Or(c.secrets.file, found)
		return nil
	})
	if read && ours != "" {
		c.secrets.because(ours)
	}
	return err
}

// plainFiles adds the values files of releases that are no templates.
func (c *converter) plainFiles(doc *document, plain map[string]bool) {
	b := c.base(doc)
	for _, r := range doc.state.Releases {
		for _, v := range r.Values {
			name, ok := v.(string)
			if !ok || path.Ext(name) == template {
				continue
			}
			if full, why := b.locate("", r.ValuesPathPrefix+name); why == nil && path.Ext(full) != template {
				plain[full] = true
			}
		}
	}
}

// scanFile says why a file can put secrets into values, and whether it reads other files.
func (c *converter) scanFile(name string) (found string, reads bool) {
	data, err := c.Files.ReadFile(name)
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be read (%v)", name, err), false
	case bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0: // binary, by Git's rule
		return "", false
	case secret(data):
		found = name + " has references that helmfile replaces by secrets"
	}
	return found, bytes.Contains(data, []byte("readFile"))
}

// because sets the reason, if there is none yet.
func (s *secrets) because(reason string) {
	if s.inline == "" {
		s.inline = reason
	}
}

// scanEnvironments looks at the environments of a state. Their files are values of templates too, so they are not in
// plain afterwards.
func (c *converter) scanEnvironments(doc *document, plain map[string]bool) {
	if hasReference(doc.fields["renderedvalues"]) || hasReference(doc.fields["environments"]) {
		c.secrets.because("the values of the environment have references that helmfile replaces by secrets")
	}
	environments, _ := doc.fields["environments"].(map[string]any) // decoded as an object already
	b := c.base(doc)
	for _, name := range slices.Sorted(maps.Keys(environments)) {
		fields, _ := environments[name].(map[string]any) // decoded as an object already
		if set(fields["secrets"]) {
			c.secrets.because(fmt.Sprintf("the values of the environment %s have decrypted secrets (environments.%s.secrets)", name, name))
		}
		files, _ := fields["values"].([]any) // helmfile has read the list
		for _, item := range files {
			file, isName := item.(string)
			if !isName {
				continue
			}
			var found []string
			if full, err := b.path(file); err == nil && !remote(file) {
				found, _ = b.glob(full) // a bad pattern finds nothing
			}
			if len(found) == 0 {
				c.secrets.because(fmt.Sprintf("Sluice cannot search %s, a file of the environment %s that the repository does not have", file, name))
			}
			for _, one := range found {
				delete(plain, one)
				if _, why := b.one("", one); why != nil {
					c.secrets.because(fmt.Sprintf("Sluice cannot search %s, a file of the environment %s: %s", one,
						name, why.reason))
				}
			}
		}
	}
}

const writtenReason = "these values are in no plain file, and are written: they can hold decrypted secrets, so read the new files before you commit them"

// inline is values that are in no plain file of the repository.
type inline struct {
	field  string
	values map[string]any
}

// inlines lists the inline values of a cell.
func (x *cell) inlines() []inline {
	var out []inline
	for _, e := range x.entries {
		if e.inline != "" {
			out = append(out, inline{e.inline, e.values})
		}
	}
	out = append(out, inline{"set, setString", x.overlay})
	for _, list := range []struct {
		field string
		items []any
	}{{"jsonPatches", x.release.JSONPatches}, {"strategicMergePatches", x.release.StrategicMergePatches}} {
		for i, item := range list.items {
			if patch, ok := item.(map[string]any); ok {
				out = append(out, inline{fmt.Sprintf("%s[%d]", list.field, i), patch})
			}
		}
	}
	return slices.DeleteFunc(out, func(one inline) bool { return len(one.values) == 0 })
}

// listInline lists inline values by their keys. It reports whether they may be written.
func (c *converter) listInline(at place, x *cell) bool {
	refused := c.secrets.inline != "" && !c.InlineValues
	list := x.inlines()
	for _, one := range list {
		field := one.field + " (" + strings.Join(keys(one.values, ""), ", ") + ")"
		if refused {
			c.find(at, LeftOut, field, c.secrets.inline+
				": these values can hold secrets, and would be written (look at them in the state, then pass --with-inline-values)")
		} else {
			c.find(at, Changed, field, writtenReason)
		}
	}
	return !refused || len(list) == 0
}

// keys are the paths of values.
func keys(values map[string]any, at string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if inner, ok := values[key].(map[string]any); ok && len(inner) > 0 {
			out = append(out, keys(inner, at+key+".")...)
		} else {
			out = append(out, at+key)
		}
	}
	return out
}
