use crate::world::*;
use gantry_core::{ErrorCode, wire::*};
use serde_json::{Value, json};

fn set(session: &str) -> SessionSet {
    SessionSet { session: session.to_owned(), mode: None, model: None, option: None }
}

fn current(view: &SessionView) -> (Value, Value, Value, Value) {
    let settings = view.settings.as_ref().unwrap();
    (
        settings.modes.as_ref().unwrap()["currentModeId"].clone(),
        settings.models.as_ref().unwrap()["currentModelId"].clone(),
        settings.options[0]["currentValue"].clone(),
        settings.options[1]["currentValue"].clone(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_models_and_options_are_shown_set_and_chosen_again_after_a_restart() {
    let world = World::new().await;
    let session = world.create("http,resume,settings", Vec::new()).await;
    world.turn(&session, "say one").await;
    let view = world.view(&session);
    assert_eq!(current(&view), (json!("ask"), json!("small"), json!("small"), json!(false)));

    let fast = OptionValue { id: "fast".into(), value: json!(true) };
    let all = SessionSet {
        mode: Some("code".into()),
        model: Some("large".into()),
        option: Some(fast),
        ..set(&session)
    };
    let view = world.sessions.set(all).await.unwrap();
    assert_eq!(current(&view), (json!("code"), json!("small"), json!("large"), json!(true)));
    assert_eq!(world.got("session/set_mode")[0]["modeId"], "code");
    let options = world.got("session/set_config_option");
    assert_eq!((&options[0]["configId"], &options[0]["value"]), (&json!("llm"), &json!("large")));
    assert_eq!((&options[1]["type"], &options[1]["value"]), (&json!("boolean"), &json!(true)));
    assert!(world.got("session/set_model").is_empty());
    // The older way has a model that the newer one does not have.
    world.sessions.set(SessionSet { model: Some("old".into()), ..set(&session) }).await.unwrap();
    assert_eq!(world.got("session/set_model")[0]["modelId"], "old");
    world.sessions.set(SessionSet { model: Some("large".into()), ..set(&session) }).await.unwrap();

    for wrong in [
        set(&session),
        SessionSet { mode: Some("fly".into()), ..set(&session) },
        SessionSet { model: Some("m9".into()), ..set(&session) },
    ] {
        let error = world.sessions.set(wrong).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ValidationError, "{error:?}");
    }
    // The agent goes into another mode by itself: that counts from then on.
    world.turn(&session, "mode ask").await;
    assert_eq!(current(&world.view(&session)).0, "ask");
    world.sessions.set(SessionSet { mode: Some("code".into()), ..set(&session) }).await.unwrap();

    let world = world.restarted().await;
    let (accepted, _) = world.turn(&session, "say two").await;
    assert_eq!(accepted.context, ContextOutcome::Restored);
    let view = world.view(&session);
    assert_eq!(current(&view), (json!("code"), json!("small"), json!("large"), json!(true)));
    let log = world.log();
    let place =
        |method: &str| log.iter().rposition(|line| line["got"]["method"] == method).unwrap();
    assert!(place("session/resume") < place("session/set_mode"));
    assert!(place("session/set_config_option") < place("session/prompt"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_in_a_stopped_session_is_chosen_when_it_opens() {
    let world = World::new().await;
    let session = world.create("http,settings", Vec::new()).await;
    world.sessions.set(SessionSet { mode: Some("code".into()), ..set(&session) }).await.unwrap();
    assert!(world.sessions.engines().is_empty(), "nothing starts for it");
    world.turn(&session, "say one").await;
    assert_eq!(current(&world.view(&session)).0, "code");
    // What this agent does not offer is left out.
    let fly = SessionSet { mode: Some("fly".into()), ..set(&session) };
    world.stop(&session).await;
    assert_eq!(world.sessions.set(fly).await.unwrap_err().code, ErrorCode::ValidationError);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_hold_what_the_agent_takes() {
    let world = World::new().await;
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AA=="});
    let file = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}});
    let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
    let with = |block: &Value| {
        let mut prompt = World::prompt_of("say hi");
        prompt.content.insert(0, block.clone());
        prompt
    };
    let blind = world.create("http", Vec::new()).await;
    // Not known before the agent has run.
    let error = world.sessions.prompt(&blind, with(&image)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ValidationError);
    assert!(error.message.contains("content[0]") && error.message.contains("images"), "{error:?}");
    assert_eq!(world.view(&blind).state, SessionState::Idle, "the session is as it was");
    assert_eq!(world.view(&blind).capabilities, Some(PromptCapabilities::default()));
    let error = world.sessions.prompt(&blind, with(&file)).await.unwrap_err();
    assert!(error.message.contains("embedded"), "{error:?}");
    let accepted = world.sessions.prompt(&blind, with(&link)).await.unwrap();
    assert_eq!(accepted.context, ContextOutcome::New);
    world.ended(&blind, &accepted.turn).await;

    let sees = world.create("http,image,embed", Vec::new()).await;
    for block in [&image, &file] {
        let accepted = world.sessions.prompt(&sees, with(block)).await.unwrap();
        assert_eq!(world.ended(&sees, &accepted.turn).await.reason, "end_turn");
    }
    assert_eq!(world.got("session/prompt")[1]["prompt"][0], image);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_offered_done_and_forgotten() {
    let world = World::new().await;
    let session = world.create("http,auth", Vec::new()).await;
    let error = world.try_prompt(&session, "say no").await.unwrap_err();
    assert!(error.message.contains("sign in"), "{error:?}");
    world.until_state(&session, SessionState::Failed).await;
    let sign_in = world.view(&session).sign_in.unwrap();
    assert!(sign_in.wanted && sign_in.log_out);
    assert_eq!(sign_in.methods.len(), 2);
    let by = |method: &str| SessionAuthenticate { session: session.clone(), method: method.into() };
    let wrong = world.sessions.authenticate(by("magic")).await.unwrap_err();
    assert!(wrong.message.contains("browser, shell"), "{wrong:?}");
    let told = world.sessions.authenticate(by("shell")).await.unwrap();
    assert!(!told.done);
    let command = told.command.unwrap();
    assert!(command[0].contains("python3") && command.last().unwrap() == "--sign-in");
    assert!(told.env.iter().any(|entry| entry == "SIGN_IN=1"), "{:?}", told.env);
    assert!(told.env[0].starts_with("AGENT_CAN="), "{:?}", told.env);
    assert_eq!(world.view(&session).state, SessionState::Stopped);
    world.no_survivors().await;

    assert!(world.sessions.authenticate(by("browser")).await.unwrap().done);
    let view = world.view(&session);
    assert_eq!((view.state, view.sign_in.unwrap().wanted), (SessionState::Idle, false));
    world.turn(&session, "say hello").await;
    world.sessions.log_out(&session).await.unwrap();
    assert!(world.view(&session).sign_in.unwrap().wanted);
    assert_eq!(world.got("logout").len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_traffic_of_a_session_outlives_its_engine_and_hides_secrets() {
    let world = World::new().await;
    let mut agent = world.agent("http");
    agent.env.insert("MY_API_KEY".into(), "s3cret-value".into());
    let session = world.create_with(|new| new.agent = agent).await;
    world.turn(&session, "say s3cret-value").await;
    let other = world.create("http", Vec::new()).await;
    world.turn(&other, "say elsewhere").await;
    world.stop(&session).await;
    let ask = SessionTraffic { session: session.clone(), tail: None };
    let messages = world.sessions.traffic(&ask).unwrap().messages;
    let methods: Vec<&str> =
        messages.iter().filter_map(|message| message.message["method"].as_str()).collect();
    assert_eq!(
        methods,
        ["initialize", "session/new", "session/update", "session/prompt", "session/update"]
    );
    assert!(messages.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let text = serde_json::to_string(&messages).unwrap();
    assert!(!text.contains("s3cret-value") && !text.contains("elsewhere"), "{text}");
    assert!(text.contains("end_turn"), "answers belong to it: {text}");
    let last = SessionTraffic { tail: Some(1), ..ask };
    assert_eq!(world.sessions.traffic(&last).unwrap().messages.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_are_told_once_and_again_when_they_change() {
    let world = World::new().await;
    let (_, mut events) = world.events.subscribe();
    let session = world.create("http,settings", Vec::new()).await;
    world.turn(&session, "say one").await;
    world.turn(&session, "mode code").await;
    world.until_state(&session, SessionState::Idle).await;
    let (mut told, mut silent) = (Vec::new(), 0);
    while let Ok(event) = events.try_recv() {
        let Happening::SessionChanged { session } = &event.what else { continue };
        match &session.settings {
            Some(settings) => {
                told.push(settings.modes.as_ref().map(|modes| modes["currentModeId"].clone()))
            }
            None => silent += 1,
        }
    }
    // When it was made, when it was opened, when the agent went into another mode.
    assert_eq!(told, [None, Some("ask".into()), Some("code".into())]);
    assert!(silent >= 4, "{silent}");
    assert!(world.view(&session).settings.is_some(), "a snapshot has them");
    world.end().await;
}
