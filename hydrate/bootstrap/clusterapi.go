package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// clusterAPITimeout is the least time that Flux waits for the objects of a described cluster: an upgrade replaces every
// machine.
const clusterAPITimeout = 2 * time.Hour

// clusterAPIKind is a kind of Cluster API whose health says that a cluster runs the version that its objects ask for.
type clusterAPIKind struct {
	group, kind string
	versions    []string
}

// clusterAPIKinds are the kinds that have health rules. The fields and conditions that the rules read are those of the
// CustomResourceDefinitions of Cluster API 1.14 and of its providers for AWS 2.11, Azure 1.26 and Google Cloud 1.13.
func clusterAPIKinds() []clusterAPIKind {
	const core, controlPlane, infrastructure = "cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
	both := []string{"v1beta1", "v1beta2"}
	return []clusterAPIKind{
		{core, "Cluster", both},
		{core, "MachineDeployment", both},
		{core, "MachinePool", both},
		{controlPlane, "KubeadmControlPlane", both},
		{controlPlane, "AWSManagedControlPlane", []string{"v1beta2"}},
		{infrastructure, "GCPManagedControlPlane", []string{"v1beta1"}},
		{infrastructure, "AzureManagedControlPlane", []string{"v1beta1"}},
		{infrastructure, "AzureASOManagedControlPlane", []string{"v1beta1"}},
	}
}

// The rules of all kinds are the same:
//
//   - An object failed if it says so for good: the phase Failed, a failureReason, or a Ready condition of severity Error.
//   - It is in progress while its controller has not seen its generation, while a condition says that machines or
//     the control plane are being replaced, while replicas are not up to date, and while it reports another version.
//   - It is healthy if it is Available (v1beta2) or Ready (v1beta1). AzureASOManagedControlPlane has no conditions, and a
//     MachinePool may have none: the field ready and the phase Running stand for them.
//
// Flux itself compares status.observedGeneration.
func (k clusterAPIKind) expressions() (inProgress, failed, current string) {
	const conditions = "status.?conditions.orValue([])"
	moves := "c, c.type in ['RollingOut', 'EKSControlPlaneUpdating', 'GKEControlPlaneUpdating'] && c.status == 'True' || " +
		"c.type == 'MachinesUpToDate' && c.status == 'False' || c.type == 'TopologyReconciled' && c.status != 'True' || " +
		"c.type in ['Available', 'TopologyReconciled'] && c.?observedGeneration.orValue(metadata.generation) != metadata.generation"
	waits := []string{
		conditions + ".exists(" + moves + ")",
		"status.?v1beta2.?conditions.orValue([]).exists(" + moves + ")",
	}
	fails := []string{conditions + ".exists(c, c.type == 'Ready' && c.status == 'False' && c.?severity.orValue('') == 'Error')"}
	healthy := conditions + ".exists(c, c.type in ['Available', 'Ready'] && c.status == 'True')"
	switch k.kind {
	case "Cluster":
		waits = append(waits, "has(spec.topology) && !"+conditions+".exists(c, c.type == 'TopologyReconciled')")
	case "MachinePool":
		waits = append(waits, "status.?readyReplicas.orValue(0) != spec.?replicas.orValue(status.?replicas.orValue(0))")
		healthy = "status.?phase.orValue('') == 'Running'"
	case "MachineDeployment", "KubeadmControlPlane":
		waits = append(waits, "status.?upToDateReplicas.orValue(status.?updatedReplicas.orValue(0)) != status.?replicas.orValue(0)",
			"status.?replicas.orValue(0) != spec.?replicas.orValue(status.?replicas.orValue(0))")
	case "AzureASOManagedControlPlane":
		healthy = "status.?ready.orValue(false)"
	default:
		waits = append(waits, "!status.?ready.orValue(false)")
	}
	if strings.HasSuffix(k.kind, "ControlPlane") { // of 1.35, v1.35.2 and 1.35.2-gke.1, one begins with the other
		waits = append(waits, "has(spec.version) && status.?version.orValue('') != '' && "+
			"!status.version.replace('v', '').startsWith(spec.version.replace('v', '')) && "+
			"!spec.version.replace('v', '').startsWith(status.version.replace('v', ''))")
	}
	if k.group == "cluster.x-k8s.io" {
		fails = append(fails, "status.?phase.orValue('') == 'Failed'")
	}
	if slices.Contains(k.versions, "v1beta1") || k.kind == "AWSManagedControlPlane" {
		fails = append(fails, "status.?failureReason.orValue('') != ''", "status.?failureMessage.orValue('') != ''")
	}
	failed = either(fails)
	return "!(" + failed + ") && (" + either(waits) + ")", failed, healthy
}

// either joins expressions of which one must hold.
func either(list []string) string { return "(" + strings.Join(list, ") || (") + ")" }

// clusterAPIHealth are health checks for Flux. A check is for all versions of its kind, and Flux refuses two of one kind.
func clusterAPIHealth() []any {
	var out []any
	for _, k := range clusterAPIKinds() {
		inProgress, failed, current := k.expressions()
		out = append(out, map[string]any{
			"apiVersion": k.group + "/" + k.versions[len(k.versions)-1], "kind": k.kind,
			"inProgress": inProgress, "failed": failed, "current": current,
		})
	}
	return out
}

// clusterAPILua is the rule of all kinds for Argo CD, which has one script for all versions of a kind.
const clusterAPILua = `local hs = {status = "Progressing", message = "the controller has not reported yet"}
local s = obj.status
if s == nil then return hs end
local generation = obj.metadata.generation
local found = {}
local lists = {s.conditions or {}, (s.v1beta2 or {}).conditions or {}}
for _, list in ipairs(lists) do
  for _, c in ipairs(list) do found[c.type] = found[c.type] or c end
end
local function is(type, status) return found[type] ~= nil and found[type].status == status end
local function waits(message) hs.message = message; return hs end
if s.observedGeneration ~= nil and s.observedGeneration ~= generation then
  return waits("the controller has not seen this generation")
end
if s.phase == "Failed" or (s.failureReason or "") ~= "" or (s.failureMessage or "") ~= "" or
  is("Ready", "False") and found.Ready.severity == "Error" then
  hs.status = "Degraded"
  hs.message = s.failureMessage or (found.Ready or {}).message or "it failed"
  return hs
end
local moving = {"RollingOut", "EKSControlPlaneUpdating", "GKEControlPlaneUpdating"}
for _, type in ipairs(moving) do
  if is(type, "True") then return waits(found[type].message or type) end
end
if is("MachinesUpToDate", "False") then return waits("machines are not up to date") end
for _, type in ipairs({"Available", "TopologyReconciled"}) do
  local c = found[type]
  if c ~= nil and c.observedGeneration ~= nil and c.observedGeneration ~= generation then
    return waits(type .. " is about an earlier generation")
  end
end
if found.TopologyReconciled ~= nil and not is("TopologyReconciled", "True") then
  return waits(found.TopologyReconciled.message or "the topology is not reconciled")
end
if obj.kind == "Cluster" and obj.spec.topology ~= nil and found.TopologyReconciled == nil then
  return waits("the topology is not reconciled")
end
local replicas = s.replicas or 0
if obj.kind == "MachineDeployment" or obj.kind == "KubeadmControlPlane" then
  if (s.upToDateReplicas or s.updatedReplicas or 0) ~= replicas or replicas ~= (obj.spec.replicas or replicas) then
    return waits("machines are not up to date")
  end
end
if obj.kind == "MachinePool" and (s.readyReplicas or 0) ~= (obj.spec.replicas or replicas) then
  return waits("machines are not ready")
end
local managed = obj.kind == "AWSManagedControlPlane" or obj.kind == "GCPManagedControlPlane"
  or obj.kind == "AzureManagedControlPlane" or obj.kind == "AzureASOManagedControlPlane"
if managed and s.ready ~= true then return waits("the control plane is not ready") end
local exact = {KubeadmControlPlane = true, AzureManagedControlPlane = true, AzureASOManagedControlPlane = true}
if obj.spec.version ~= nil and (s.version or "") ~= "" then
  local other = exact[obj.kind] and s.version ~= obj.spec.version
  if obj.kind == "GCPManagedControlPlane" then
    local want, have = string.gsub(obj.spec.version, "v", ""), string.gsub(s.version, "v", "")
    other = string.sub(want, 1, #have) ~= have and string.sub(have, 1, #want) ~= want
  end
  if other then return waits("the version is " .. s.version) end
end
if obj.kind == "MachinePool" and s.phase == "Running" or obj.kind == "AzureASOManagedControlPlane"
  or obj.kind ~= "MachinePool" and (is("Available", "True") or is("Ready", "True")) then
  hs.status = "Healthy"
  hs.message = ""
end
return hs
`

// ClusterAPICustomizations returns the data of Argo CD's ConfigMap argocd-cm that tell the health of objects of Cluster
// API. Argo CD's own scripts call a cluster healthy while it is being upgraded.
func ClusterAPICustomizations() map[string]any {
	out := map[string]any{}
	for _, k := range clusterAPIKinds() {
		out[fmt.Sprintf("resource.customizations.health.%s_%s", k.group, k.kind)] = clusterAPILua
		if k.kind == "GCPManagedControlPlane" { // its versions are compared with Lua's string library
			out[fmt.Sprintf("resource.customizations.useOpenLibs.%s_%s", k.group, k.kind)] = "true"
		}
	}
	return out
}
