package kustomize_test

const labels = "-- kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels:\n- pairs: {a: b}\n"
