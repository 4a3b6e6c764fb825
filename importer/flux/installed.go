package flux

import (
	"bytes"
	"regexp"
	"slices"
)

// Installed is what a file says about the version of Flux on a cluster.
type Installed struct {
	Version string // as it is written, without a leading v; that of a FluxInstance can be a range, such as 2.x
	Origin  Origin
}

// installed is an Installed of a file. Path is sync.path of the FluxInstance that names the version; "" for others.
type installed struct {
	Version string
	Path    string `json:",omitempty"`
	Line    int
}

// What the files that install Flux have in them. A comment counts only in the header that `flux install` writes.
var (
	installHeader = regexp.MustCompile(`(?m)^# Flux Version: v?(\d+\.\d+\.\d+\S*)[ \t]*$`)
	installRemote = regexp.MustCompile(`(?m)^[^#\n]*fluxcd/flux2(?:\.git)?/+manifests/[^\s?]*\?\S*?ref=v?(\d+\.\d+(?:\.\d+)?)`)
	installFile   = regexp.MustCompile(`(?m)^[^#\n]*fluxcd/flux2/releases/download/v?(\d+\.\d+\.\d+)/install\.yaml`)
	installPart   = regexp.MustCompile(`(?m)^[^#\n]*app\.kubernetes\.io/part-of["']?:[ \t]*["']?flux["']?[ \t]*(?:[,}#]|$)`)
	installLabel  = regexp.MustCompile(`(?m)^[^#\n]*app\.kubernetes\.io/version["']?:[ \t]*["']?v?([2-9]\.\d+\.\d+[^\s"',}]*)`)
	installOCI    = regexp.MustCompile(`(?m)^[^#\n]*oci://\S*/flux-manifests["']?[ \t]*(?:[,}#]|$)`)
	installTag    = regexp.MustCompile(`(?m)^[^#\n]*\btag["']?:[ \t]*["']?v?(\d+\.\d+\.\d+[^\s"',}]*)`)
)

// installs finds the version in a file that installs Flux without a FluxInstance: gotk-components.yaml, a kustomization
// with a URL of fluxcd/flux2, or an OCIRepository of flux-manifests. It reads text, because such files are long.
func installs(data []byte) []installed {
	if !bytes.Contains(data, []byte("lux")) {
		return nil
	}
	found := func(in []byte, offset int, pattern *regexp.Regexp) []installed {
		m := pattern.FindSubmatchIndex(in)
		if m == nil {
			return nil
		}
		return []installed{{
			Version: string(in[m[2]:m[3]]), Line: 1 + bytes.Count(data[:offset+m[2]], []byte("\n")),
		}}
	}
	for _, pattern := range []*regexp.Regexp{installHeader, installRemote, installFile} {
		if out := found(data, 0, pattern); out != nil {
			return out
		}
	}
	if !bytes.Contains(data, []byte("app.kubernetes.io/part-of")) && !bytes.Contains(data, []byte("/flux-manifests")) {
		return nil
	}
	offset := 0
	for document := range bytes.SplitAfterSeq(data, []byte("\n---")) {
		for _, pair := range [][2]*regexp.Regexp{{installPart, installLabel}, {installOCI, installTag}} {
			if out := found(document, offset, pair[1]); out != nil && pair[0].Match(document) {
				return out
			}
		}
		offset += len(document)
	}
	return nil
}

// versions returns what the files say about the version of Flux on each root: the FluxInstances that sync it, otherwise
// the files that it reaches and those in its directory, otherwise the files of no root.
func (s *survey) versions() map[string][]Installed {
	synced, own, other := map[string][]Installed{}, map[string][]Installed{}, []Installed(nil)
	for _, name := range s.commit.files {
		for _, one := range s.facts[name].Installed {
			found := Installed{Version: one.Version, Origin: Origin{File: name, Line: one.Line}}
			placed := false
			for dir, reached := range s.within {
				switch {
				case one.Path != "" && slices.Contains(s.directories(one.Path), dir):
					synced[dir], placed = append(synced[dir], found), true
				case one.Path == "" && (reached[name] || selfNaming(name, &applying{Path: dir})):
					own[dir], placed = append(own[dir], found), true
				}
			}
			if !placed {
				other = append(other, found)
			}
		}
	}
	out := map[string][]Installed{}
	for dir := range s.within {
		switch {
		case len(synced[dir]) > 0:
			out[dir] = synced[dir]
		case len(own[dir]) > 0:
			out[dir] = own[dir]
		default:
			out[dir] = other
		}
	}
	return out
}
