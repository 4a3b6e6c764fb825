package helm

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// output is the result of one template file or include. Renderings share it.
type output struct {
	text      string
	documents []Document // as Helm splits the text of a file; none of notes
	includes  int        // of an include: how deeply includes are nested in it, with itself
}

// size estimates the memory of an output.
func (o *output) size() int {
	const file, document = 300, 120 // bytes besides the text
	n := file + len(o.text)
	for i := range o.documents {
		n += document + cap(o.documents[i].Text)
	}
	return n
}

// outputs are the results of all files of a rendering.
type outputs struct {
	files        map[string]*output
	total, limit int  // bytes of text; 0: no limit
	unstable     bool // see Result
}

// newOutputs returns the results of a rendering without any. files is their usual number.
func newOutputs(limit, files int) *outputs {
	return &outputs{files: make(map[string]*output, files), limit: limit}
}

// tooMuchText is the error of templates that produce more text than the limit.
type tooMuchText struct{ limit int }

func (e *tooMuchText) Error() string {
	return fmt.Sprintf("the templates produce more than %d MiB of text", e.limit>>20)
}

// add adds the result of a file that is split already.
func (o *outputs) add(name string, file *output) error {
	if o.total += len(file.text); o.limit > 0 && o.total > o.limit {
		return &tooMuchText{o.limit}
	}
	o.files[name] = file
	return nil
}

// text adds the text of a file.
func (o *outputs) text(name, text string) error {
	file := &output{text: text}
	if err := o.add(name, file); err != nil {
		return err
	}
	if manifests(name) {
		file.documents = split(name, text)
	}
	return nil
}

// manifests reports whether a template contains objects.
func manifests(name string) bool { return !strings.HasSuffix(name, "NOTES.txt") && !partial(name) }

// split splits a text into documents as Helm does.
func split(name, text string) []Document {
	var out []Document
	for _, document := range splitManifests(text) {
		// Helm prints a newline after each document; without it, a block scalar at the end would lose its newline.
		data := append(append(make([]byte, 0, len(document)+1), document...), '\n')
		out = append(out, Document{Source: name, Text: data, Sum: sha256.Sum256(data)})
	}
	return out
}

// documents appends the documents of the files by name.
func (o *outputs) documents(out []Document) []Document {
	for _, name := range slices.Sorted(maps.Keys(o.files)) {
		out = append(out, o.files[name].documents...)
	}
	return out
}

// crds returns the documents of the crds/ directories.
func (p *parsedCharts) crds(work *chart.Chart) []Document {
	var out []Document
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, crd := range work.CRDObjects() {
		sum, ok := p.sums[crd.File]
		if !ok {
			if p.sums == nil {
				p.sums = map[*chart.File][sha256.Size]byte{}
			}
			sum = sha256.Sum256(crd.File.Data)
			p.sums[crd.File] = sum
		}
		out = append(out, Document{Source: crd.Filename, Text: crd.File.Data, Sum: sum, CRD: true})
	}
	return out
}
