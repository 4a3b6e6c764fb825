package cli

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

// releaseFlow is what .github/workflows/release.yaml, .goreleaser.yaml and the Makefile say about a release.
type releaseFlow struct {
	Jobs map[string]struct {
		Needs       string
		Permissions map[string]string
		Steps       []releaseStep
	}
	Builds []struct {
		Main    string
		Hooks   any
		Env     []string
		Flags   []string
		Ldflags []string
		Tags    []string
	}
	Archives []struct{ Formats []string }
	Sboms    []struct {
		Artifacts string
		Cmd       string
		Documents []string
	}
	Signs []struct {
		Artifacts string
		Cmd       string
		Args      []string
	}
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
	}
	makefile string
}

type releaseStep struct {
	Uses, Run string
	If        string
	With      map[string]any
}

func newReleaseFlow(t *testing.T, workflow, goreleaser, makefile string) *releaseFlow {
	t.Helper()
	f := &releaseFlow{makefile: makefile}
	for _, text := range []string{workflow, goreleaser} {
		if err := yaml.Unmarshal([]byte(text), f); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// step returns the number of the first step of a job that has a text, and -1 if none has it.
func (f *releaseFlow) step(job, text string) int {
	return slices.IndexFunc(f.Jobs[job].Steps, func(s releaseStep) bool {
		return s.If == "" && (strings.HasPrefix(s.Uses, text+"@") || strings.Contains(s.Run, text))
	})
}

var exactVersion = regexp.MustCompile(`@v\d+\.\d+\.\d+\s*$`)

// problems returns what keeps a release from having an SBOM of what it publishes, signatures and provenance, made by
// tools of fixed versions after the tests.
func (f *releaseFlow) problems() []string {
	var out []string
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	for job, order := range map[string][]string{
		"test": {"actions/checkout", "actions/setup-go", ".ci/run", "make reproducible"},
		"archives": {
			"actions/checkout", "actions/setup-go", "sigstore/cosign-installer", "anchore/syft/cmd/syft@",
			"goreleaser/goreleaser-action", "actions/attest-build-provenance",
		},
		"image": {
			"actions/checkout", "actions/setup-go", "sigstore/cosign-installer", "docker/login-action",
			"make image-files", "cosign sign",
		},
	} {
		last := -1
		for _, what := range order {
			at := f.step(job, what)
			expect(at >= 0, "%s: no step %s", job, what)
			expect(at > last, "%s: %s comes too early", job, what)
			last = max(last, at)
		}
		for _, s := range f.Jobs[job].Steps {
			expect(s.Uses == "" || pinnedUse.MatchString(s.Uses), "%s: %s is not pinned by digest", job, s.Uses)
			expect(s.With["cache"] == false || !strings.HasPrefix(s.Uses, "actions/setup-go@") || job == "test",
				"%s: it takes build files from a cache", job)
			for line := range strings.Lines(s.Run) {
				expect(!strings.Contains(line, "go install ") || exactVersion.MatchString(line),
					"%s: %s installs no exact version", job, strings.TrimSpace(line))
			}
		}
		expect(job == "test" || f.Jobs[job].Needs == "test", "%s: it does not wait for the tests", job)
	}
	f.archives(expect)
	return append(out, f.image()...)
}

var pinnedUse = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)

func (f *releaseFlow) archives(expect func(ok bool, format string, args ...any)) {
	if len(f.Builds) != 1 || len(f.Archives) != 1 || len(f.Sboms) != 1 || len(f.Signs) != 1 {
		expect(false, "%d builds, %d archives, %d SBOMs and %d signatures", len(f.Builds), len(f.Archives),
			len(f.Sboms), len(f.Signs))
		return
	}
	build, sbom, sign := f.Builds[0], f.Sboms[0], f.Signs[0]
	expect(build.Hooks == nil, "a hook can change the binary after its build")
	// What the archives hold is what `make reproducible` builds.
	flags, _, _ := strings.Cut(after(f.makefile, "export GOFLAGS := "), "\n")
	expect(flags != "" && strings.Join(build.Flags, " ") == flags && len(build.Tags) == 0,
		"built with %q, and by the Makefile with %q", build.Flags, flags)
	linker, _, _ := strings.Cut(after(f.makefile, "\nLDFLAGS := "), "\n")
	expect(linker != "" && strings.Join(build.Ldflags, " ") == linker, "linked with %q, and by the Makefile with %q",
		build.Ldflags, linker)
	expect(build.Main == "./cmd/sluice" && slices.Equal(build.Env, []string{"CGO_ENABLED=0"}), "builds %s with %q",
		build.Main, build.Env)
	// An SBOM of an archive lists the modules that its binary names, not those of the sources.
	expect(sbom.Artifacts == "archive" && sbom.Cmd == "syft" && len(sbom.Documents) == 1, "SBOM: %+v", sbom)
	expect(sign.Artifacts == "checksum" && sign.Cmd == "cosign" && slices.Contains(sign.Args, "--bundle=${signature}"),
		"signature: %+v", sign)
	if at := f.step("archives", "goreleaser/goreleaser-action"); at >= 0 {
		with := f.Jobs["archives"].Steps[at].With
		args, _ := with["args"].(string)
		expect(strings.HasPrefix(args, "release ") && !strings.Contains(args, "--skip") &&
			!strings.Contains(args, "--snapshot"), "goreleaser %s", args)
		version, _ := with["version"].(string)
		expect(exactVersion.MatchString("@"+version), "goreleaser %q is no exact version", version)
	}
	if at := f.step("archives", "actions/attest-build-provenance"); at >= 0 {
		subjects, _ := f.Jobs["archives"].Steps[at].With["subject-path"].(string)
		for _, file := range []string{
			"sluice_1.2.3_linux_arm64.tar.gz",
			strings.ReplaceAll(strings.Join(sbom.Documents, ""), "{{ .ArtifactName }}",
				"sluice_1.2.3_linux_arm64.tar.gz"), f.Checksum.NameTemplate,
		} {
			matched := slices.ContainsFunc(strings.Fields(subjects), func(p string) bool {
				ok, err := path.Match(p, "dist/"+file)
				return ok && err == nil
			})
			expect(matched, "no provenance of %s", file)
		}
	}
	for _, right := range []string{"contents", "id-token", "attestations"} {
		expect(f.Jobs["archives"].Permissions[right] == "write", "archives: no right %s", right)
	}
}

func (f *releaseFlow) image() []string {
	build, sign := "", ""
	for _, s := range f.Jobs["image"].Steps {
		if strings.Contains(s.Run, "buildx build") {
			build = s.Run
		}
		if strings.Contains(s.Run, "cosign sign") {
			sign = s.Run
		}
	}
	var out []string
	for _, part := range []string{
		"make image-files", "docker buildx build", "--provenance=mode=max", "--sbom=true",
		"--push",
	} {
		before, rest, found := strings.Cut(build, part)
		if !found {
			out = append(out, fmt.Sprintf("image: %s is not there, or too late: %s", part, before))
		}
		build = rest
	}
	if !strings.Contains(sign, `cosign sign --yes "$IMAGE@$digest"`) ||
		f.Jobs["image"].Permissions["id-token"] != "write" {
		out = append(out, "image: it is not signed by its digest")
	}
	return out
}

func after(text, what string) string {
	_, rest, _ := strings.Cut(text, what)
	return rest
}

// A release has an SBOM of each archive, made from the archive, provenance of archives, SBOMs and checksums, and
// signatures. Each change of the files that breaks one of these is found.
func TestReleaseSteps(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	workflow, goreleaser, makefile := read(".github/workflows/release.yaml"), read(".goreleaser.yaml"), read("Makefile")
	if problems := newReleaseFlow(t, workflow, goreleaser, makefile).problems(); len(problems) > 0 {
		t.Error(strings.Join(problems, "\n"))
	}
	attest := after(workflow, "      - uses: actions/attest-build-provenance")
	attest, _, _ = strings.Cut(attest, "  image:")
	attest = "      - uses: actions/attest-build-provenance" + attest
	cosign, _, _ := strings.Cut("      - uses: sigstore/cosign-installer"+
		after(workflow, "      - uses: sigstore/cosign-installer"), "\n")
	for _, change := range [][3]string{
		{"no provenance", attest, ""},
		{"provenance of archives only", "            dist/*.spdx.json\n", ""},
		{"no provenance of checksums", "            dist/checksums.txt\n", ""},
		{"provenance before the archives are there", "      - uses: sigstore/cosign-installer", attest +
			"      - uses: sigstore/cosign-installer"},
		{
			"provenance under a condition", "      - uses: actions/attest-build-provenance",
			"      - if: github.actor == 'x'\n        uses: actions/attest-build-provenance",
		},
		{"no right to attest", "      attestations: write  # provenance\n", ""},
		{
			"an action by tag", "actions/attest-build-provenance@e8998f949152b193b063cb0ec769d69d929409be",
			"actions/attest-build-provenance@v2",
		},
		{"any version of syft", "cmd/syft@v1.57.0", "cmd/syft@latest"},
		{"any version of goreleaser", "version: v2.18.2", "version: '~> v2'"},
		{"no syft", "        run: go install github.com/anchore/syft/cmd/syft@v1.57.0", "        run: 'true'"},
		{"no cosign", cosign + "\n", ""},
		{"SBOMs are skipped", "args: release --clean", "args: release --clean --skip=sbom"},
		{"a cache of build files", "          cache: false # a release is built from its sources alone\n", ""},
		{"archives before the tests", "  archives:\n    needs: test\n", "  archives:\n"},
		{"no second build", "run: make reproducible", "run: 'true'"},
		{"an image without SBOM", " --sbom=true", ""},
		{"an image without provenance", " --provenance=mode=max", ""},
		{"a tag is signed", `"$IMAGE@$digest"`, `"$IMAGE"`},
		{"SBOM of the sources", "artifacts: archive", "artifacts: source"},
		{"no SBOM", "  - artifacts: archive\n    cmd: syft\n    documents: ['{{ .ArtifactName }}.spdx.json']\n", ""},
		{"SBOM under another name", ".spdx.json']", ".cdx.json']"},
		{"no signature", "    cmd: cosign\n", "    cmd: 'true'\n"},
		{"other build tags", "flags: [-trimpath]", "flags: [-trimpath, -tags=x]"},
		{"another linker", "ldflags: [-s -w]", "ldflags: [-s]"},
		{"a hook after the build", "    binary: sluice\n", "    binary: sluice\n    hooks: {post: upx dist/sluice}\n"},
	} {
		in := [2]string{
			strings.Replace(workflow, change[1], change[2], 1),
			strings.Replace(goreleaser, change[1], change[2], 1),
		}
		if in[0] == workflow && in[1] == goreleaser {
			t.Errorf("%s: the files do not have %q", change[0], change[1])
		} else if problems := newReleaseFlow(t, in[0], in[1], makefile).problems(); len(problems) == 0 {
			t.Errorf("%s: nothing is found", change[0])
		}
	}
}
