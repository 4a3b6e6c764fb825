package review

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// Sends questions of a compromised worker to the parent. None may panic, and none moves a branch: no input is an object
// of a commit.
func FuzzQuestions(f *testing.F) {
	questions := []string{
		askObjects, askList, askFetch, askPush, askArchive, askVerify, askSchema,
		renderer.QuestionContent, renderer.QuestionRender, renderer.QuestionLight,
	}
	s, base, head := demo(f)
	const preview = "sluice/preview/1"
	p, err := newParent(f.Context(), s, Request{
		Request: compare.Request{Base: base, Head: head, Key: []byte("k"), Preview: &compare.Preview{Branch: preview}},
		Policy:  head.Tree, Offline: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(p.close)
	for i, input := range []string{
		string(head.Tree[:]), `["env/"]`, `["` + head.Hash.String() + `"]`,
		"m\x00\x00\x00\x24" + `[{"Branch":"sluice/preview/1","New":""}]` + "b\x00\x00\x00\x01x",
		`{"Ref":{"Repo":"https://charts.example.com","Chart":"web","Version":"1.0.0"},"Locked":{"Version":"1.0.0","Digest":"sha256:00"}}`,
		`{"Signers":["acme"]}`, `{"KubeVersion":"1.33","APIVersion":"v1","Kind":"Pod"}`, "\xa0", "\xa0",
	} {
		f.Add(byte(i), []byte(input))
	}
	before, err := s.Branches.List(f.Context(), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, question byte, input []byte) {
		_, _ = p.answer(t.Context(), questions[int(question)%len(questions)], input) // an error is for the worker
		after, err := s.Branches.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, tip := range after {
			if name != preview && before[name] != tip {
				t.Fatalf("%s is moved from %s to %s", name, before[name], tip)
			}
		}
	})
}

// Reads the answers of a compromised worker. None may panic, and the parent refuses those about other commits.
func FuzzReviewAnswer(f *testing.F) {
	head, base := gitstore.Hash{1}, gitstore.Hash{2}
	o := Request{Request: compare.Request{Base: gitstore.Commit{Hash: base}, Head: gitstore.Commit{Hash: head}}}
	var empty reviewAnswer
	empty.Review = &report.Review{Base: base.String(), Head: head.String(), Verdict: report.VerdictPass}
	for _, contexts := range [][][][]string{nil, {{{"a"}}}} {
		empty.Contexts = contexts
		data, err := json.Marshal(empty)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"Review":{"verdict":"pass","changes":{"groups":[{"where":[{"environment":"dev"}],"objects":[{}]}]}},"Contexts":[[["b"]]]}`))
	f.Add([]byte(`{"Review":null,"Contexts":[[["a"]]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a reviewAnswer
		if json.Unmarshal(data, &a) != nil || a.join() != nil || a.check(o) != nil {
			return
		}
		if a.Review.Head != head.String() {
			t.Fatalf("an answer about %q is accepted", a.Review.Head)
		}
		text, _ := report.Markdown(a.Review, 60_000)
		if strings.ContainsAny(text, "\x00\x1b\u202e") {
			t.Fatalf("the report holds control characters: %q", text)
		}
	})
}
