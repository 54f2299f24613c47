//! What the agent lets the user choose, and what the user chose. Pure.
//!
//! Agents offer modes and models in up to two ways: config options (category
//! `mode`, `model`) and the older lists. The newer way is preferred, value by value.

use crate::{Error, Result, wire::SessionSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is to be set.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    /// The id of a mode.
    Mode(String),
    /// The id of a model.
    Model(String),
    /// A config option's id and its new value.
    Option(String, Value),
}

/// How the agent is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Way {
    /// `session/set_mode`.
    Mode(String),
    /// `session/set_model`.
    Model(String),
    /// `session/set_config_option`.
    Option(String, Value),
}

/// What the user chose, to be chosen again when the session is opened anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Chosen {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, Value>,
}

impl Chosen {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn remember(&mut self, setting: Setting) {
        match setting {
            Setting::Mode(id) => self.mode = Some(id),
            Setting::Model(id) => self.model = Some(id),
            Setting::Option(id, value) => {
                self.options.insert(id, value);
            }
        }
    }

    /// The agent went into another mode by itself: that is what the user sees last.
    pub(super) fn follow_mode(&mut self, mode: &str) {
        if self.mode.is_some() {
            self.mode = Some(mode.to_owned());
        }
    }

    /// The model first: other options may depend on it.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let model = self.model.clone().map(Setting::Model);
        let mode = self.mode.clone().map(Setting::Mode);
        let options =
            self.options.iter().map(|(id, value)| Setting::Option(id.clone(), value.clone()));
        model.into_iter().chain(options).chain(mode).collect()
    }
}

/// What the agent offers, as it said it last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offered(SessionSettings);

impl Offered {
    pub(super) fn view(&self) -> SessionSettings {
        self.0.clone()
    }

    /// Whether the agent has said anything yet.
    pub(super) fn is_known(&self) -> bool {
        self.0 != SessionSettings::default()
    }

    /// The answer to `session/new`, `load`, `resume`, or to a change. What it leaves out stays.
    pub(super) fn take(&mut self, answer: &Value) -> bool {
        let before = self.clone();
        let object = |key: &str| answer.get(key).filter(|value| value.is_object()).cloned();
        if let Some(modes) = object("modes") {
            self.0.modes = Some(modes);
        }
        if let Some(models) = object("models") {
            self.0.models = Some(models);
        }
        if let Some(Value::Array(options)) = answer.get("configOptions") {
            self.0.options.clone_from(options);
        }
        *self != before
    }

    /// The session is opened anew: what another agent offered is nothing any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// `current_mode_update`.
    pub(super) fn mode_is(&mut self, mode: &str) -> bool {
        let before = self.clone();
        if let Some(modes) = &mut self.0.modes {
            modes["currentModeId"] = json!(mode);
        }
        *self != before
    }

    /// How the agent is told of a setting.
    ///
    /// # Errors
    /// It does not offer that; the message has the choices.
    pub(super) fn way(&self, setting: &Setting) -> Result<Way> {
        match setting {
            Setting::Mode(id) => {
                let ids = listed(self.0.modes.as_ref(), "availableModes", "id");
                self.either("mode", id, ids, Way::Mode(id.clone()))
            }
            Setting::Model(id) => {
                let ids = listed(self.0.models.as_ref(), "availableModels", "modelId");
                self.either("model", id, ids, Way::Model(id.clone()))
            }
            Setting::Option(id, value) => {
                let Some(option) = self.0.options.iter().find(|option| option["id"] == **id) else {
                    let ids: Vec<&str> =
                        self.0.options.iter().filter_map(|option| option["id"].as_str()).collect();
                    return Err(not_offered("option.id", id, &ids));
                };
                check(option, id, value)?;
                Ok(Way::Option(id.clone(), value.clone()))
            }
        }
    }

    fn either(&self, category: &str, id: &str, older: Vec<&str>, way: Way) -> Result<Way> {
        let option = self.0.options.iter().find(|option| option["category"] == category);
        let newer = option.map(choices).unwrap_or_default();
        if let Some(option) = option
            && newer.contains(&id)
            && let Some(of) = option["id"].as_str()
        {
            return Ok(Way::Option(of.to_owned(), json!(id)));
        }
        if older.contains(&id) {
            return Ok(way);
        }
        let all: Vec<&str> = newer.into_iter().chain(older).collect();
        Err(not_offered(category, id, &all))
    }

    /// Whether it is so already.
    pub(super) fn is_set(&self, way: &Way) -> bool {
        let current = |list: &Option<Value>, key| list.as_ref().map(|list| list[key].clone());
        match way {
            Way::Mode(id) => current(&self.0.modes, "currentModeId") == Some(json!(id)),
            Way::Model(id) => current(&self.0.models, "currentModelId") == Some(json!(id)),
            Way::Option(id, value) => self
                .0
                .options
                .iter()
                .any(|option| option["id"] == **id && option["currentValue"] == *value),
        }
    }

    /// The agent did it.
    pub(super) fn done(&mut self, way: &Way, answer: &Value) {
        match way {
            Way::Mode(id) => {
                self.mode_is(id);
            }
            Way::Model(id) => {
                if let Some(models) = &mut self.0.models {
                    models["currentModelId"] = json!(id);
                }
            }
            Way::Option(id, value) => {
                if let Some(option) = self.0.options.iter_mut().find(|o| o["id"] == **id) {
                    option["currentValue"] = value.clone();
                }
            }
        }
        self.take(answer);
    }
}

fn listed<'a>(list: Option<&'a Value>, all: &str, id: &str) -> Vec<&'a str> {
    let items = list.and_then(|list| list[all].as_array()).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item[id].as_str()).collect()
}

/// The ids of an option's choices; they may be grouped.
fn choices(option: &Value) -> Vec<&str> {
    let items = option["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |item: &'_ Value| item["options"].as_array().cloned().unwrap_or_default().is_empty();
    let mut ids = Vec::new();
    for item in items {
        if of(item) {
            ids.extend(item["value"].as_str());
        } else {
            ids.extend(choices(item));
        }
    }
    ids
}

fn check(option: &Value, id: &str, value: &Value) -> Result<()> {
    let choices = choices(option);
    match value {
        Value::Bool(_) if option["type"] == "boolean" => Ok(()),
        _ if option["type"] == "boolean" => {
            Err(Error::invalid(format!("option.value: `{id}` is either true or false")))
        }
        // A kind of option that is not known here: the agent judges.
        _ if choices.is_empty() => Ok(()),
        Value::String(text) if choices.contains(&text.as_str()) => Ok(()),
        other => Err(not_offered("option.value", other.as_str().unwrap_or("?"), &choices)),
    }
}

fn not_offered(what: &str, id: &str, choices: &[&str]) -> Error {
    if choices.is_empty() {
        return Error::invalid(format!(
            "{what}: the agent does not let it be chosen in this session"
        ));
    }
    Error::invalid(format!(
        "{what}: the agent does not offer `{id}`; it offers {}",
        choices.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Offered {
        let mut offered = Offered::default();
        assert!(!offered.is_known());
        offered.take(&json!({
            "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
            "models": {"currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "old"}]},
            "configOptions": [
                {"id": "llm", "category": "model", "type": "select", "currentValue": "m1", "options": [
                    {"group": "g", "name": "G", "options": [{"value": "m1"}, {"value": "m2"}]},
                    {"value": "m3"},
                ]},
                {"id": "fast", "type": "boolean", "currentValue": false},
            ],
        }));
        offered
    }

    #[test]
    fn the_newer_way_is_taken_where_it_has_the_value() {
        let offered = offered();
        let model = |id: &str| offered.way(&Setting::Model(id.into()));
        assert_eq!(model("m2").unwrap(), Way::Option("llm".into(), json!("m2")));
        assert_eq!(model("m3").unwrap(), Way::Option("llm".into(), json!("m3")));
        assert_eq!(model("old").unwrap(), Way::Model("old".into()));
        let wrong = model("m9").unwrap_err().message;
        assert!(wrong.contains("m9") && wrong.contains("m2, m3"), "{wrong}");
        assert_eq!(offered.way(&Setting::Mode("code".into())).unwrap(), Way::Mode("code".into()));
        let nothing = Offered::default().way(&Setting::Mode("code".into())).unwrap_err();
        assert!(nothing.message.contains("does not let"));
    }

    #[test]
    fn values_are_checked_by_kind() {
        let offered = offered();
        let option = |id: &str, value| offered.way(&Setting::Option(id.into(), value));
        assert!(option("fast", json!(true)).is_ok());
        assert!(option("fast", json!("yes")).is_err());
        assert!(option("llm", json!("m2")).is_ok());
        assert!(option("llm", json!(3)).is_err());
        assert!(option("slow", json!(true)).unwrap_err().message.contains("llm, fast"));
    }

    #[test]
    fn what_was_done_is_current_and_what_an_answer_leaves_out_stays() {
        let mut offered = offered();
        for way in [
            Way::Mode("code".into()),
            Way::Model("old".into()),
            Way::Option("fast".into(), json!(true)),
        ] {
            assert!(!offered.is_set(&way));
            offered.done(&way, &json!({}));
            assert!(offered.is_set(&way), "{way:?}");
        }
        let options =
            json!({"configOptions": [{"id": "fast", "type": "boolean", "currentValue": true}]});
        offered.done(&Way::Option("fast".into(), json!(true)), &options);
        assert_eq!(offered.view().options.len(), 1);
        assert!(offered.view().modes.is_some());
        assert!(offered.mode_is("ask") && !offered.mode_is("ask"));
    }

    #[test]
    fn choices_are_remembered_the_model_first() {
        let mut chosen = Chosen::default();
        chosen.follow_mode("code");
        assert!(chosen.is_empty(), "the agent's own choice is no choice of the user");
        chosen.remember(Setting::Mode("ask".into()));
        chosen.remember(Setting::Option("fast".into(), json!(true)));
        chosen.remember(Setting::Model("m1".into()));
        chosen.follow_mode("code");
        let settings = chosen.settings();
        assert_eq!(settings[0], Setting::Model("m1".into()));
        assert_eq!(settings[2], Setting::Mode("code".into()));
        let back: Chosen = serde_json::from_value(serde_json::to_value(&chosen).unwrap()).unwrap();
        assert_eq!(back, chosen);
    }
}
