package policy_test

import (
	"context"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// judged returns the findings about one Deployment with a policy.
func judged(files fstest.MapFS) []policy.Finding {
	ctx := context.Background()
	engine, err := policy.Load(ctx, files, policy.Options{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	objects, err := manifest.Decode([]byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"+
		"spec: {replicas: 1, template: {spec: {containers: [{name: web, image: \"web:latest\"}]}}}\n"),
		manifest.DefaultBudget())
	if err != nil {
		fmt.Println(err)
		return nil
	}
	result, err := engine.Check(ctx, policy.Input{Subjects: policy.Listed(policy.Subject{
		Cluster: &policy.Cluster{Name: "eu", Environment: "prod", KubeVersion: "1.33.2"},
		App:     &policy.App{Name: "web", Namespace: "shop"},
		Objects: []policy.Object{{Key: "web", Object: objects[0]}},
	})})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	return result.Findings
}

func ExampleEngine_Check() {
	for _, f := range judged(nil) {
		fmt.Println(f.Severity, f.Rule, f.Object)
	}
	// Output:
	// warning image-tag Deployment.apps shop/web
}

// The fleet's own rules are Rego files of the folder policy, with the rule names of conftest.
func ExampleLoad() {
	files := fstest.MapFS{"policy/replicas.rego": {Data: []byte(`package main

deny contains msg if {
	input.kind == "Deployment"
	input.spec.replicas < 2
	msg := "at least two replicas"
}
`)}}
	for _, f := range judged(files) {
		if f.Rule == "main.deny" {
			fmt.Println(f.Severity, f.Message)
		}
	}
	// Output:
	// error at least two replicas
}

// Compare tells findings that a change introduces from those that were there before.
func ExampleCompare() {
	found := judged(nil)
	comparison := policy.Compare(nil, found)
	fmt.Println(len(comparison.Introduced), "introduced,", len(policy.Compare(found, found).Introduced),
		"introduced if nothing changes")
	// Output:
	// 1 introduced, 0 introduced if nothing changes
}
