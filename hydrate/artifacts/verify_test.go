package artifacts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/sluice-gitops/sluice/hydrate/artifacts"
)

func (p *place) verify() artifacts.Verification {
	p.T.Helper()
	found, err := artifacts.Verify(p.T.Context(), p.config(), []string{"dev-1"})
	if err != nil || len(found) != 1 {
		p.T.Fatalf("%+v %v", found, err)
	}
	return found[0]
}

// entry is a member of an archive.
type entry struct {
	tar.Header
	data string
}

func packed(t *testing.T, list ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range list {
		e.Size = int64(len(e.data))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Verify finds every way in which an artifact is not what Sluice pushed for the commit of the branch, and publish
// mends it.
func TestVerify(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	if v := p.verify(); v.Status != artifacts.VerifyMissing || !strings.Contains(v.Reason, "sluice publish") {
		t.Errorf("before the first run: %+v", v)
	}
	p.publish(artifacts.Options{})
	if v := p.verify(); v.Status != artifacts.VerifyOK || v.Digest == "" || v.Branch != "cluster/dev-1" {
		t.Errorf("after it: %+v", v)
	}
	registry, err := p.fetcher().Registry(p.config().Fleet.Artifact(p.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := registry.Manifest(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	var good ocispec.Manifest
	if err := json.Unmarshal(data, &good); err != nil {
		t.Fatal(err)
	}
	layer, err := registry.Blob(t.Context(), good.Layers[0], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, layer)
	tamper := func(change func(*ocispec.Manifest), data []byte, tags ...string) {
		t.Helper()
		m := good
		m.Layers = append([]ocispec.Descriptor{}, good.Layers...)
		m.Annotations = maps.Clone(good.Annotations)
		if data != nil {
			m.Layers[0] = content.NewDescriptorFromBytes(good.Layers[0].MediaType, data)
			if err := registry.Upload(t.Context(), m.Layers[0], data); err != nil {
				t.Fatal(err)
			}
		}
		if change != nil {
			change(&m)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			if err := registry.Tag(t.Context(), content.NewDescriptorFromBytes(m.MediaType, text), text, tag); err != nil {
				t.Fatal(err)
			}
		}
	}
	regular := func(name, data string) entry {
		return entry{tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, data}
	}
	var all []entry
	for name, text := range files {
		all = append(all, regular(name, text))
	}
	first := all[0].Name
	with := func(more ...entry) []byte { return packed(t, append(append([]entry{}, all...), more...)...) }
	commit := p.tip("cluster/dev-1")
	both := []string{"latest", commit}
	for name, c := range map[string]struct {
		change func(*ocispec.Manifest)
		layer  []byte
		tags   []string
		status string
		want   string
	}{
		"the same files, packed by another program": {nil, with(), both, "ok", ""},
		"another file":       {nil, with(regular("evil/deployment-x.yaml", "kind: Deployment\n")), both, "differs", "evil/deployment-x.yaml added"},
		"a changed file":     {nil, packed(t, append([]entry{regular(first, "x")}, all[1:]...)...), both, "differs", first + " changed"},
		"a file less":        {nil, packed(t, all[1:]...), both, "differs", first + " removed"},
		"a file twice":       {nil, with(regular(first, "x")), both, "differs", first + " added"},
		"a link":             {nil, with(entry{tar.Header{Name: "x", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, ""}), both, "differs", "x added"},
		"a path that leaves": {nil, with(regular("../../x", "x")), both, "differs", "../../x added"},
		"an executable file": {nil, packed(t, append([]entry{{tar.Header{Name: first, Mode: 0o755, Typeflag: tar.TypeReg}, all[0].data}}, all[1:]...)...), both, "differs", "changed"},
		"no archive":         {nil, []byte("hello"), both, "differs", "not compressed with gzip"},
		"a cut archive":      {nil, with()[:40], both, "differs", "not an archive"},
		"another kind":       {func(m *ocispec.Manifest) { m.Config.MediaType = "application/vnd.oci.image.config.v1+json" }, nil, both, "differs", "something else"},
		"two layers":         {func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, nil, both, "differs", "something else"},
		"another commit":     {func(m *ocispec.Manifest) { m.Annotations["org.opencontainers.image.revision"] = "x\x1b[31m" }, nil, both, "behind", "latest leads to"},
		"only the tag":       {func(m *ocispec.Manifest) { m.Annotations["x"] = "y" }, nil, []string{"latest"}, "differs", "the tag of the commit leads to another"},
		"a huge layer":       {func(m *ocispec.Manifest) { m.Layers[0].Size = 1 << 40 }, nil, both, "failed", "more than the limit"},
	} {
		tamper(c.change, c.layer, c.tags...)
		v := p.verify()
		text := v.Reason
		for _, d := range v.Differences {
			text += "; " + d.Path + " " + d.Effect
		}
		if v.Status != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %+v, want %s %s", name, v, c.status, c.want)
		}
		if name == "the same files, packed by another program" {
			continue
		}
		if r := p.publish(artifacts.Options{Rebuild: true}); !r.OK() {
			t.Errorf("%s: publish: %+v", name, r)
		}
		if v := p.verify(); v.Status != artifacts.VerifyOK {
			t.Errorf("%s: after publish: %+v", name, v)
		}
	}
	p.server.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if v := p.verify(); v.Status != artifacts.VerifyFailed || !strings.Contains(v.Reason, "503") {
		t.Errorf("without a registry: %+v", v)
	}
	p.server.answer(nil)
	p.Bare.Git("update-ref", "refs/heads/cluster/dev-1", p.Bare.Git("commit-tree", "-p", commit, "-m", "mine", commit+"^{tree}"))
	if v := p.verify(); v.Status != artifacts.VerifyHeld || !strings.Contains(v.Reason, "was not made by Sluice") {
		t.Errorf("a foreign commit: %+v", v)
	}
}
